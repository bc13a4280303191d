"""Beam search: the result of one that the test makes itself, a token a request, from the
log-probabilities of /v1/completions; handed over, on a decode worker alone, and after its death."""

import json
import os
import signal
import time
import unittest

from client import Background, in_parallel
from cluster import Cluster, wait_until

WIDTH, TOKENS = 4, 24
SHORT = "The three largest cities of Italy are"
LONG = ("The lighthouse keeper climbed the stairs, lamp in hand, and counted the ships: one, two, "
        "three. The wind came from the north. Nobody had slept since the storm began. ") * 3
END, END_OF_TEXT = 2, 0  # <|im_end|>, <|endoftext|>


class BeamSearch(unittest.TestCase):
    def post(self, cluster, prompt, max_tokens, **fields):
        status, _, body = cluster.client().request("POST", "/v1/completions", {
            "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "return_token_ids": True,
            "return_tokens_as_token_ids": True, **fields})
        self.assertEqual(status, 200, body)
        return json.loads(body)

    def search(self, cluster, prompt, max_tokens=TOKENS, **fields):
        return self.post(cluster, prompt, max_tokens, use_beam_search=True, n=WIDTH, logprobs=1,
                         baton_trace=True, **fields)

    def next_tokens(self, cluster, ids):
        """The 2 * WIDTH most likely tokens and their log-probabilities, best first."""
        answer = self.post(cluster, ids, 1, logprobs=2 * WIDTH, ignore_eos=True)
        top = answer["choices"][0]["logprobs"]["top_logprobs"][0]
        found = [(int(name.removeprefix("token_id:")), value) for name, value in top.items()]
        return sorted(found, key=lambda pair: -pair[1])[:2 * WIDTH]

    def by_hand(self, cluster, prompt, ends, penalty, max_tokens=TOKENS):
        """[(output, score)], as vLLM searches: no shortcut, the prompt counts in the length."""
        beams, done = [([], 0.0)], []
        for _ in range(max_tokens):
            rows = in_parallel([lambda ids=ids: self.next_tokens(cluster, prompt + ids)
                                for ids, _ in beams])
            longer = []
            for (ids, total), row in zip(beams, rows):
                for token, logprob in row:
                    if token in ends:
                        score = (total + logprob) / (len(prompt) + len(ids)) ** penalty
                        done.append((ids + [token], score))
                    else:
                        longer.append((ids + [token], total + logprob))
            beams = sorted(longer, key=lambda beam: -beam[1])[:WIDTH]
        done += [(ids, total / (len(prompt) + len(ids)) ** penalty) for ids, total in beams]
        return sorted(done, key=lambda beam: -beam[1])[:WIDTH]

    def check(self, answer, expected, ends, penalty):
        self.assertEqual([choice["token_ids"] for choice in answer["choices"]],
                         [ids for ids, _ in expected])
        for choice, (ids, score) in zip(answer["choices"], expected):
            ended = ids[-1] in ends
            length = len(choice["prompt_token_ids"]) + len(ids) - ended
            total = sum(choice["logprobs"]["token_logprobs"])
            self.assertAlmostEqual(total / length ** penalty, score, delta=1e-4)
            self.assertEqual(choice["finish_reason"], "stop" if ended else "length")
        self.assertEqual(answer["usage"]["completion_tokens"],
                         sum(len(ids) for ids, _ in expected))

    def test_finds_what_a_search_by_hand_finds(self):
        with Cluster(file="deploy/local-2p2d.yaml") as cluster:
            local = self.search(cluster, SHORT)
            self.assertTrue(local["baton"]["prefill"].startswith("d"), local["baton"])
            prompt = local["choices"][0]["prompt_token_ids"]
            ends = {END, END_OF_TEXT}
            self.check(local, self.by_hand(cluster, prompt, ends, 1), ends, 1)
            self.cost(cluster)
            cluster.wait_blocks_free()
            self.worker_dies(cluster)

    def test_finds_the_same_after_a_hand_over(self):
        with Cluster(file="deploy/local-2p2d.yaml",
                     sets=["router.local_prefill=never"]) as cluster:
            remote = self.search(cluster, LONG, 8, length_penalty=-0.5, ignore_eos=True,
                                 stop_token_ids=[30, 28])  # "." and ","
            self.assertTrue(remote["baton"]["prefill"].startswith("p"), remote["baton"])
            self.assertGreater(remote["baton"]["transfer_bytes"], 0)
            prompt = remote["choices"][0]["prompt_token_ids"]
            self.check(remote, self.by_hand(cluster, prompt, {30, 28}, -0.5, 8), {30, 28}, -0.5)

    def cost(self, cluster):
        """Prints the time of a token beside that of as many greedy choices."""
        def timed(**fields):
            begin = time.monotonic()
            self.post(cluster, SHORT, 64, n=WIDTH, ignore_eos=True, **fields)
            return (time.monotonic() - begin) / 64 * 1e3
        beams = min(timed(use_beam_search=True) for _ in range(2))
        greedy = min(timed() for _ in range(2))
        print(f"a step of {WIDTH} beams: {beams:.2f} ms, of {WIDTH} greedy choices: "
              f"{greedy:.2f} ms")

    def worker_dies(self, cluster):
        def ask():
            return self.search(cluster, SHORT, 150, ignore_eos=True)
        expected = ask()

        def busy():
            for name in ("d0", "d1"):
                if cluster.scrape(name=name).sum("vllm:num_requests_running") > 0:
                    return name
            return None
        again = Background(ask)
        victim = wait_until(busy, "a decode worker with the search")
        os.kill(cluster.process(victim)["pid"], signal.SIGKILL)
        answer = again.result()
        self.assertEqual(answer["choices"], expected["choices"])
        self.assertNotEqual(answer["baton"]["decode"], victim)


if __name__ == "__main__":
    unittest.main()
