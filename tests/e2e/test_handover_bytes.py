"""What crosses from prefill to decode workers is the prompt's KV, all of it, once, and early."""

import math
import random
import unittest

import prompts
from client import in_parallel
from cluster import FULL, Cluster

UNIT = 32  # tokens of a push unit: equal block sizes
LAYERS, KV_HEADS, DIM, BYTES = 30, 3, 64, 2  # of the default model; bf16
PIECE_BYTES = UNIT * LAYERS * 2 * KV_HEADS * DIM * BYTES
LONG = 2000
LONG_COUNT = 20 if FULL else 5
COUNT = 100 if FULL else 35


class HandoverBytes(unittest.TestCase):
    def ask(self, cluster, ids):
        answer = cluster.client().completion(ids, max_tokens=2, ignore_eos=True)
        self.assertTrue(answer.ok, f"{len(ids)} tokens: {answer.why()}")
        self.assertEqual(len(answer.ids), 2)
        return answer

    def test_handover(self):
        generator = random.Random(20)
        # Even over the orders of magnitude: 1 to 3,000 tokens.
        lengths = [1, 31, 32, 33, 3000]
        while len(lengths) < COUNT - LONG_COUNT - 10:
            lengths.append(round(math.exp(generator.uniform(0, math.log(3000)))))
        repeated = [1, 20, 32, 33, 64, 95, 300, 511, 512, 513]

        with Cluster(sets=["router.local_prefill=never"]) as cluster:
            expected = 0
            in_parallel([lambda n=n, seed=seed: self.ask(cluster, prompts.ids(n, seed=seed))
                         for seed, n in enumerate(lengths)], limit=4)
            expected += sum(math.ceil(n / UNIT) for n in lengths) * PIECE_BYTES
            received = cluster.scrape(role="decode").sum(
                "baton_kv_transfer_bytes_total", direction="received")
            self.assertEqual(received, expected)

            # Whole pieces that the decode worker holds already are not sent again.
            for seed, n in enumerate(repeated):
                ids = prompts.ids(n, seed=5000 + seed)
                self.ask(cluster, ids)
                again = self.ask(cluster, ids)
                pieces = math.ceil(n / UNIT)
                expected += (pieces + pieces - n // UNIT) * PIECE_BYTES
                self.assertEqual(again.trace["transfer_bytes"],
                                 (pieces - n // UNIT) * PIECE_BYTES, f"{n} tokens again")

            early = 0
            shares = []
            for seed in range(LONG_COUNT):
                trace = self.ask(cluster, prompts.ids(LONG, seed=6000 + seed)).trace
                shares.append(trace["first_data_ms"] / trace["prefill_ms"])
                early += shares[-1] < 0.3
            expected += LONG_COUNT * math.ceil(LONG / UNIT) * PIECE_BYTES

            decode = cluster.scrape(role="decode")
            prefill = cluster.scrape(role="prefill")
            cluster.wait_blocks_free()
        self.assertEqual(decode.sum("baton_prompt_tokens_computed_total"), 0)
        received = decode.sum("baton_kv_transfer_bytes_total", direction="received")
        sent = prefill.sum("baton_kv_transfer_bytes_total", direction="sent")
        self.assertEqual(received, expected)
        self.assertEqual(sent, expected)
        self.assertEqual(prefill.sum("baton_kv_transfer_failures_total"), 0)
        self.assertGreaterEqual(early, 0.95 * LONG_COUNT,
                                f"share of the prefill before the first DATA: {sorted(shares)}")
        total = len(lengths) + 2 * len(repeated) + LONG_COUNT
        print(f"{total} hand-overs, {received / 1e6:.1f} MB received, as computed; tokens computed "
              f"by the decode worker: 0; first DATA of {LONG}-token prompts at "
              f"{100 * min(shares):.1f} to {100 * max(shares):.1f} % of the prefill "
              f"({early} of {LONG_COUNT} before 30 %)")
