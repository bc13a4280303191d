"""Clients that leave at any moment: how soon their work ends, and that nobody waits for it."""

import contextlib
import json
import os
import random
import socket
import statistics
import time
import unittest

import prompts
from cluster import FULL, Cluster, wait_until

ROUNDS = int(os.environ.get("BATON_CANCELS", 20 if FULL else 8))
PROMPT = 1200  # several chunks
BUSY = "vllm:num_requests_running", "vllm:num_requests_waiting"


class Cancel(unittest.TestCase):
    def leave(self, cluster, seed, after):
        """Asks, and closes the connection after so many seconds."""
        client = cluster.client()
        body = json.dumps({"prompt": prompts.ids(PROMPT, seed=seed), "max_tokens": 400,
                           "temperature": 0, "ignore_eos": True, "stream": True}).encode()
        with socket.create_connection((client.host, client.port), timeout=60) as connection:
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n"
                               b"Content-Type: application/json\r\n"
                               b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            end = time.monotonic() + after
            with contextlib.suppress(TimeoutError):
                while (left := end - time.monotonic()) > 0:
                    connection.settimeout(left)
                    self.assertTrue(connection.recv(1 << 16), "the server closed first")
        return time.monotonic()

    def nothing_left(self, cluster):
        """No request and no block is held; the workers say so at their next tick (20 ms)."""
        workers = [cluster.scrape(name=name) for name in ("p0", "d0")]
        return (not any(scrape.sum(name) for scrape in workers for name in BUSY) and
                not any(cluster.busy_blocks().values()))

    def computed(self, cluster):
        return sum(cluster.scrape(role=role).sum("vllm:iteration_tokens_total_sum")
                   for role in ("prefill", "decode"))

    def test_everything_ends_soon_wherever_it_is(self):
        sets = ["workers.heartbeat=20ms", "router.local_prefill=never"]
        dice = random.Random(1)
        with Cluster(sets=sets) as cluster:
            def short(seed):
                answer = cluster.client().completion(prompts.ids(20, seed=seed), max_tokens=2)
                self.assertTrue(answer.ok, answer.why())
                return answer.ttft
            whole = cluster.client().completion(prompts.ids(PROMPT, seed=1), max_tokens=20)
            self.assertTrue(whole.ok, whole.why())
            usual = statistics.median(short(seed) for seed in range(2, 7))
            ends, delays = [], []
            for number in range(ROUNDS):
                # From the queue over every chunk and the hand-over to the first twenty tokens.
                after = dice.uniform(0, whole.ended - whole.sent)
                left = self.leave(cluster, 100 + number, after)
                if number % 2:
                    delays.append(short(1000 + number) - usual)
                    wait_until(lambda: self.nothing_left(cluster), "nothing is left", 20)
                    continue
                wait_until(lambda: self.nothing_left(cluster),
                           f"nothing is left of what was cancelled after {after:.3f} s", 20)
                ends.append(time.monotonic() - left)
                before = self.computed(cluster)
                time.sleep(0.1)
                self.assertEqual(self.computed(cluster), before, "tokens of nobody")
            for what, found in (("everything ended after", ends),
                                ("the next request came later by", delays)):
                found = sorted(1e3 * seconds for seconds in found)
                print(f"{what} {statistics.median(found):.0f} ms at the median, "
                      f"{found[int(0.99 * len(found))]:.0f} at p99, of {len(found)}")
                self.assertLess(found[-1], 1500, what)


if __name__ == "__main__":
    unittest.main()
