"""Prompts go where they are served soonest."""

import time
import unittest

import prompts
from client import Background
from cluster import Cluster
from test_prefix_cache import HEARTBEATS_S


class Placement(unittest.TestCase):
    def test_busy_worker_and_prefixes(self):
        with Cluster("deploy/local-2p2d.yaml", sets=["router.local_prefill=never"]) as cluster:
            client = cluster.client()

            def ask(ids, tokens=2):
                answer = client.completion(ids, tokens, ignore_eos=True)
                self.assertTrue(answer.ok, answer.why())
                return answer

            for seed in range(4):
                ask(prompts.ids(256, seed=seed))  # both workers know their rates
            shared = prompts.ids(960, seed=50)
            home = ask(shared).trace["prefill"]
            time.sleep(HEARTBEATS_S)
            for seed in range(5):
                trace = ask(shared + prompts.ids(20, seed=60 + seed)).trace
                self.assertEqual(trace["prefill"], home, "its prefix is there")
                self.assertGreater(trace["prompt_tokens_cached"], 900)
            print(f"5 of 5 prompts with a prefix on {home} went to {home}")

            # The same prefix at the head of a long prompt makes its home busy.
            sent = time.monotonic()
            long = Background(lambda: ask(shared + prompts.ids(7000, seed=70)))
            time.sleep(HEARTBEATS_S)
            self.assertTrue(long.running())
            went = []
            for seed in range(20):
                went.append(ask(prompts.ids(24, seed=100 + seed)).trace["prefill"])
                self.assertTrue(long.running(), f"{seed + 1} requests took longer than the long one")
            # Its queue now costs more than a short prefix saves.
            moved = ask(shared[:320] + prompts.ids(20, seed=80)).trace["prefill"]
            still = long.running()
            trace = long.result().trace
            busy = trace["prefill"]  # its home, unless the other one has measured a better rate
            print(f"{busy} busy for {time.monotonic() - sent:.1f} s with "
                  f"{trace['prompt_tokens_computed']} tokens; the next 20 went to "
                  f"{sorted(set(went))}, one with a short prefix on {home} to {moved}")
            self.assertNotIn(busy, went)
            if still:
                self.assertNotEqual(moved, busy)
            cluster.wait_blocks_free()
