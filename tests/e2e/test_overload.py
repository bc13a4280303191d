"""More requests than fit: some wait, on the prefill worker with their KV, the rest is refused before any
work is done for them."""

import threading
import time
import unittest

import prompts
from client import Background, in_parallel
from cluster import Cluster

REQUESTS, PROMPT, OUTPUT = 24, 150, 16
WAITING = 8
PREFILL_BLOCKS = 50
AGAIN_S = 0.5  # a client that was refused comes back so soon, though it is told to wait longer


class Overload(unittest.TestCase):
    def test_a_full_decode_pool(self):
        # Room for four requests on the decode worker, for ten on the prefill worker.
        sets = ["decode.*.kv_cache=28blocks", f"prefill.*.kv_cache={PREFILL_BLOCKS}blocks",
                "prefill.*.prefix_cache=false", "decode.*.prefix_cache=false",
                "router.local_prefill=never", f"router.max_waiting={WAITING}"]
        with Cluster(sets=sets, pool=False) as cluster:
            self.client = cluster.client()
            self.refused = []
            expected = [self.ask(seed) for seed in range(3)]
            before = self.computed(cluster)
            self.over = threading.Event()
            parked = Background(lambda: self.most_parked(cluster))
            answers = in_parallel([lambda seed=seed: self.ask_until_served(seed)
                                   for seed in range(REQUESTS)])
            self.over.set()
            for answer in answers:
                self.assertTrue(answer.ok, answer.why())
                self.assertEqual(len(answer.ids), OUTPUT)
            for answer, want in zip(answers, expected):
                self.assertEqual(answer.ids, want.ids)
            self.assertGreater(len(self.refused), 0)
            for answer in self.refused:
                self.assertEqual((answer.status, answer.error["type"]), (429, "overloaded_error"))
                self.assertGreaterEqual(int(answer.headers["Retry-After"]), 1)
            self.assertEqual(self.computed(cluster) - before, PROMPT * REQUESTS,
                             "prompts of refused requests, or some computed twice")
            held = parked.result()
            self.assertGreater(held, 0)
            cluster.wait_blocks_free()
        print(f"{REQUESTS} requests for a pool of four: all served in the end, {len(self.refused)} "
              f"refusals before any prefill, at most {held} of {PREFILL_BLOCKS} blocks parked")

    def ask(self, seed):
        return self.client.completion(prompts.ids(PROMPT, seed=seed), OUTPUT, ignore_eos=True)

    def ask_until_served(self, seed):
        end = time.monotonic() + 60
        while True:
            answer = self.ask(seed)
            if answer.status != 429 or time.monotonic() > end:
                return answer
            self.refused.append(answer)
            time.sleep(AGAIN_S)

    def most_parked(self, cluster):
        most = 0
        while not self.over.wait(0.05):
            most = max(most, cluster.scrape("p0").blocks().get("active", 0))
        return most

    @staticmethod
    def computed(cluster):
        return cluster.scrape("p0").sum("baton_prompt_tokens_computed_total")
