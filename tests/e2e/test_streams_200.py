"""200 streams over two prefill and two decode workers."""

import random
import unittest

import prompts
from client import in_parallel
from cluster import FULL, Cluster

STREAMS = 200
DISTINCT = 100 if FULL else 50
# The router remembers the last 1,000 requests, so its memory is full after round 5.
ROUNDS = 10 if FULL else 2
TOKENS = 16


def requests():
    generator = random.Random(200)
    out = []
    for i in range(DISTINCT):
        fields = {} if i % 2 else {"temperature": 0.8, "seed": 31 * i, "top_k": 40}
        out.append((prompts.ids(generator.randrange(3, 120), seed=i), fields))
    return out


class Streams200(unittest.TestCase):
    solo = None

    def ask(self, cluster, request):
        ids, fields = request
        return cluster.client().completion(ids, max_tokens=TOKENS, ignore_eos=True, **fields)

    def run_mode(self, mode, rounds=2):
        wanted = requests()
        order = [i % DISTINCT for i in range(STREAMS)]
        pss = []
        with Cluster("deploy/local-2p2d.yaml", sets=[f"router.local_prefill={mode}"]) as cluster:
            if Streams200.solo is None:
                Streams200.solo = [self.ask(cluster, request) for request in wanted]
            if FULL:
                # Buffers that follow the largest batch get their full size: long streams at once.
                in_parallel([lambda seed=seed: cluster.client().completion(
                    prompts.ids(8, seed=seed), max_tokens=64, ignore_eos=True)
                    for seed in range(STREAMS)])
            for number in range(rounds):
                random.Random(number).shuffle(order)
                answers = in_parallel([lambda i=i: self.ask(cluster, wanted[i]) for i in order])
                for i, answer in zip(order, answers):
                    self.assertTrue(answer.ok, f"round {number}: {answer.why()}")
                    self.assertEqual(answer.ids, Streams200.solo[i].ids, f"round {number}")
                    self.assertEqual(answer.text, Streams200.solo[i].text)
                cluster.wait_blocks_free()
                pss.append(cluster.pss_kib())
            used = {p["name"]: cluster.scrape(p["name"]).sum("baton_engine_batch_sequences_count")
                    for p in cluster.processes("prefill") + cluster.processes("decode")}
            failures = cluster.scrape().sum("baton_kv_transfer_failures_total")
        print(f"{mode}: {rounds} rounds of {STREAMS} streams, all as alone; steps of each worker: "
              f"{ {name: int(steps) for name, steps in used.items()} }; hand-overs tried again: "
              f"{failures:.0f}")
        for name in pss[0] if rounds > 5 else ():
            full = 5 if name.startswith("router") else 1
            growth = pss[-1][name] / pss[full][name]
            print(f"  Pss of {name}: {pss[full][name] / 1024:.1f} MiB in round {full + 1}, "
                  f"{pss[-1][name] / 1024:.1f} in round {rounds} ({growth:.3f})")
            # Pss also moves with who else maps the packed weights.
            self.assertLessEqual(growth, 1.03, name)
        return used

    def test_never(self):
        used = self.run_mode("never")
        self.assertTrue(all(used.values()), f"a worker did nothing: {used}")

    def test_auto(self):
        self.run_mode("auto", ROUNDS)
