"""A cached prefix is neither computed nor shipped again."""

import math
import time
import unittest

import prompts
from cluster import Cluster
from test_handover_bytes import PIECE_BYTES, UNIT

PREFIX, TAIL = 1500, 20
HEARTBEATS_S = 0.7  # the router learns of cached blocks by heartbeats, every 200 ms


class PrefixCache(unittest.TestCase):
    def test_only_the_rest_is_computed_and_shipped(self):
        with Cluster(sets=["router.local_prefill=never"]) as cluster:
            def counters():
                prefill, decode = cluster.scrape(role="prefill"), cluster.scrape(role="decode")
                return (prefill.sum("baton_prompt_tokens_computed_total"),
                        decode.sum("baton_kv_transfer_bytes_total", direction="received"))
            cluster.client().completion(prompts.ids(600, seed=1), 2)  # warm the process up
            prefix = prompts.ids(PREFIX, seed=2)
            cold_ms, warm_ms = [], []
            for number in range(3):
                # Other cold prefixes of the same length, then two more tails of each.
                prefix = prompts.ids(PREFIX, seed=20 + number)
                for tail in range(3):
                    before = counters()
                    answer = cluster.client().completion(
                        prefix + prompts.ids(TAIL, seed=300 + 10 * number + tail), 2,
                        ignore_eos=True)
                    self.assertTrue(answer.ok, answer.why())
                    after = counters()
                    (warm_ms if tail else cold_ms).append(answer.ttft * 1e3)
                    held = PREFIX // UNIT if tail else 0
                    total = PREFIX + TAIL
                    # Of the block in which the tails part from each other, the beginning is copied.
                    self.assertEqual(after[0] - before[0], TAIL if tail else total)
                    self.assertEqual(after[1] - before[1],
                                     (math.ceil(total / UNIT) - held) * PIECE_BYTES)
                    cached = answer.usage["prompt_tokens_details"]["cached_tokens"]
                    self.assertEqual(cached, PREFIX if tail else 0)
            hits = cluster.scrape(role="prefill").sum("vllm:prefix_cache_hits_total")
        cold, warm = sorted(cold_ms)[1], sorted(warm_ms)[len(warm_ms) // 2]
        print(f"TTFT of {PREFIX} + {TAIL} tokens: cold {cold:.0f} ms, prefix cached {warm:.0f} ms "
              f"({warm / cold:.3f}); tokens from the cache {hits:.0f}")
        self.assertLessEqual(warm, 0.25 * cold)

    def test_salts_do_not_share(self):
        with Cluster(sets=["router.local_prefill=never"]) as cluster:
            ids = prompts.ids(200, seed=3)
            for salt, cached in (("a", 0), ("b", 0), ("a", 192)):
                answer = cluster.client().completion(ids, 2, cache_salt=salt)
                self.assertEqual(answer.usage["prompt_tokens_details"]["cached_tokens"], cached)

    def test_decode_worker_with_the_prefix_prefills_itself(self):
        with Cluster(sets=["router.local_prefill=auto"]) as cluster:
            ids = prompts.ids(640, seed=4)
            cluster.client().completion(ids, 2, ignore_eos=True)
            time.sleep(HEARTBEATS_S)
            answer = cluster.client().completion(ids + prompts.ids(8, seed=5), 2)
            self.assertEqual(answer.trace["prefill"], "d0")
            self.assertEqual(answer.trace["prompt_tokens_computed"], 8)
            decisions = cluster.scrape(role="router").sum(
                "baton_router_decisions_total", decision="local", reason="prefix_on_decode")
            self.assertEqual(decisions, 1)
