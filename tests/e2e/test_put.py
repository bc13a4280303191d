"""KV that the prefill worker writes into the decode worker's pool: the same text, and no block that
a stopped or killed writer could still reach."""

import os
import signal
import threading
import time
import unittest

import prompts
from client import in_parallel
from cluster import Cluster, generate, wait_until

TOKENS = 32
SETS = ["transfer.transports=pool", "router.local_prefill=never"]


class Put(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        items = [item for item in prompts.reference_items() if len(item["prompt_ids"]) <= 600]
        cls.prompts = [items[i]["prompt_ids"] for i in (1, 11, 13)]  # 13, 40 and 600 tokens
        cls.wanted = [generate(ids, TOKENS)["tokens"] for ids in cls.prompts]

    def ask(self, cluster):
        answers = in_parallel([
            lambda ids=ids: cluster.client().completion(ids, max_tokens=TOKENS)
            for ids in self.prompts])
        for answer, want in zip(answers, self.wanted):
            self.assertTrue(answer.ok, answer.why())
            self.assertEqual(answer.ids, want)
            self.assertEqual(answer.trace["transport"], "pool")

    def test_the_same_text(self):
        with Cluster(sets=SETS) as cluster:
            self.ask(cluster)
            self.ask(cluster)
            cluster.wait_blocks_free()
            received = cluster.scrape(role="decode").sum("baton_kv_transfer_bytes_total",
                                                         direction="received", transport="pool")
            self.assertGreater(received, 0)
            with open(f"/proc/{cluster.process('p0')['pid']}/maps") as file:
                self.assertIn("/memfd:baton-kv", file.read(), "the pool is not mapped")
        print(f"{len(self.prompts)} prompts over pool: the tokens of one process")

    def test_a_writer_that_is_stopped_or_killed(self):
        failures = []
        with Cluster(sets=SETS) as cluster:
            self.ask(cluster)
            pid = cluster.process("p0")["pid"]
            for number in (signal.SIGSTOP, signal.SIGKILL):
                closed = cluster.log_text().count("d0: link closed")
                asking = threading.Thread(target=self.ask_long, args=(cluster, failures))
                asking.start()
                time.sleep(0.3)  # into the first prefill
                os.kill(pid, number)
                wait_until(lambda: cluster.log_text().count("d0: link closed") > closed,
                           "d0 has given the writer up")
                if number == signal.SIGSTOP:
                    # The blocks of its tickets are held back until it wakes.
                    os.kill(pid, signal.SIGCONT)
                else:
                    wait_until(lambda: cluster.process("p0")["pid"] != pid, "p0 started again")
                asking.join(60)
                self.assertFalse(asking.is_alive(), "requests hang")
                cluster.wait_blocks_free()
        self.assertEqual(failures, [])
        print("a writer stopped, resumed and killed: every answer came, every block is free")

    def ask_long(self, cluster, failures):
        """Prompts that take longer than the writer lives."""
        answers = in_parallel([
            lambda: cluster.client().completion(self.prompts[-1] * 2, max_tokens=4)
            for _ in range(2)])
        failures += [answer.why() for answer in answers if not answer.ok]


if __name__ == "__main__":
    unittest.main()
