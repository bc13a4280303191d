"""overlap.py, on clusters that are none."""
import collections
import json
import os
import threading
import unittest
from unittest import mock

import overlap
from client import Answer
from printed import printed
from runs import BenchError
from streams import Seeds

PREFILL, SENDER = 100.0, 5.0  # ms


class FakeCluster:
    """A prompt that is handed over takes 1.2 times what the transfer thread computes longer."""

    made = []

    def __init__(self, file="", sets=()):
        self.made.append((file, list(sets)))
        self.asked, self.cpu = [], collections.Counter()
        self.trace_changes = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def client(self):
        return self

    def processes(self, role=None):
        return [each for each in ({"role": "router", "name": "", "pid": os.getpid()},
                                  {"role": "prefill", "name": "p0", "pid": os.getpid()},
                                  {"role": "decode", "name": "d0", "pid": os.getpid()})
                if role in (None, each["role"])]

    def process(self, name):
        return next(each for each in self.processes() if each["name"] == name)

    def completion(self, prompt, max_tokens, ignore_eos):
        assert ignore_eos
        handed_over = max_tokens > 1
        self.asked.append((tuple(prompt), handed_over))
        self.cpu.update({"compute": PREFILL + (0.5 if handed_over else 0),
                         "transfer": SENDER + 0.1 if handed_over else 0.1})
        self.cpu["all"] = self.cpu["compute"] + self.cpu["transfer"]
        return Answer(status=200, done=True, finish="length", trace={
            "prefill_ms": PREFILL + (1.2 * SENDER if handed_over else 0),
            "transfer_visible_ms": 0.5 if handed_over else 0,
            "transfer_bytes": 46_000_000 if handed_over else 0,
            "prompt_tokens_computed": 16, **self.trace_changes})

    def scrape(self, role):
        assert role == "prefill"
        handed_over = sum(each[1] for each in self.asked)
        values = {"seconds_sum": handed_over * 0.08, "seconds_count": handed_over,
                  "hidden_ratio_sum": handed_over * 0.99, "hidden_ratio_count": handed_over}
        scrape = mock.Mock()
        scrape.sum = lambda name: values[name.removeprefix("baton_kv_transfer_")]
        return scrape


class BenchOverlap(unittest.TestCase):
    def setUp(self):
        FakeCluster.made = []
        for patch in (mock.patch.object(overlap.clusters, "Cluster", FakeCluster),
                      mock.patch.object(overlap, "cpu_ms", self.cpu_ms),
                      mock.patch.object(overlap, "pin", lambda *pinned: self.pinned.append(pinned)),
                      mock.patch.object(overlap.os, "sched_getaffinity", lambda _: {3, 5}),
                      mock.patch.object(overlap.os, "sched_setaffinity",
                                        lambda _, cpus: self.own.append(set(cpus))),
                      mock.patch.object(overlap, "SETTLE_S", 0)):
            patch.start()
            self.addCleanup(patch.stop)
        self.pinned, self.own, self.clusters = [], [], []
        init = FakeCluster.__init__
        patch = mock.patch.object(FakeCluster, "__init__", lambda this, **kwargs: (
            init(this, **kwargs), self.clusters.append(this))[0])
        patch.start()
        self.addCleanup(patch.stop)

    def cpu_ms(self, _):
        return collections.Counter(self.clusters[-1].cpu)

    def run_bench(self, *flags):
        status, out, err = printed(
            overlap.main, ["--rounds", "2", "--seconds", "0", "--computed", "16", *flags])
        self.assertFalse(status, err)
        return out, err

    def test_what_a_hand_over_adds_is_the_median_of_its_pairs(self):
        def one(prefill, transfer, everything):
            return {"prefill_ms": prefill, "visible_ms": 0.4, "bytes": 2e6, "transfer_cpu_ms": transfer,
                    "compute_cpu_ms": prefill - 1, "all_cpu_ms": everything}
        # The machine gets slower and slower, which pairs do not see; the last was disturbed.
        pairs = [(one(105 + slow, 4.1, 110 + slow), one(100 + slow, 0.1, 105 + slow))
                 for slow in (0, 10, 20, 30)] + [(one(300, 9, 330), one(100, 0.1, 105))]
        row = overlap.figures(pairs, 90.0, 0.995)
        self.assertEqual((row["pairs"], row["without_ms"], row["with_ms"]), (5, 110, 125))
        self.assertAlmostEqual(row["added_ms"], 5)
        self.assertAlmostEqual(row["sender_ms"], 4)
        self.assertAlmostEqual(row["added_per_sender"], 1.25)
        self.assertAlmostEqual(row["cpu_per_sender"], 1.25)
        self.assertAlmostEqual(row["compute_per_transfer"], 27.5)
        self.assertAlmostEqual(row["hidden_of_sender"], 0.9)
        self.assertEqual((row["transfer_ms"], row["hidden"], row["mb"]), (90.0, 0.995, 2))

    def test_a_transfer_thread_without_time_ends_it(self):
        same = {"prefill_ms": 1, "visible_ms": 1, "bytes": 1, "transfer_cpu_ms": 1, "compute_cpu_ms": 1,
                "all_cpu_ms": 1}
        with self.assertRaisesRegex(BenchError, "no CPU time"):
            overlap.figures([(same, same)], 1, 1)

    def test_the_order_turns_and_prompts_share_what_is_cached(self):
        cluster = FakeCluster()
        asked = overlap.Asked(cluster, Seeds(), 2000, 16)
        asked.fill_cache()
        pairs = asked.pairs(0)
        self.assertEqual(len(pairs), 2)
        for with_it, without in pairs:
            self.assertEqual((with_it["bytes"], without["bytes"]), (46_000_000, 0))
            self.assertAlmostEqual(with_it["transfer_cpu_ms"], SENDER + 0.1)
        self.assertEqual([each[1] for each in cluster.asked], [False, True, False, False, True])
        heads = {each[0][:1984] for each in cluster.asked}
        self.assertEqual(len(heads), 1)
        self.assertEqual(len({each[0] for each in cluster.asked}), 5)

    def test_prompts_that_are_computed_whole_share_nothing(self):
        cluster = FakeCluster()
        cluster.trace_changes = {"prompt_tokens_computed": 64}
        asked = overlap.Asked(cluster, Seeds(), 64, 64)
        asked.fill_cache()
        asked.pairs(0)
        self.assertEqual(len({each[0][:2] for each in cluster.asked}), 4)

    def test_an_answer_that_is_not_what_was_asked_for_ends_it(self):
        for changes, words in [({"prompt_tokens_computed": 2000}, "2000 tokens were computed, not 16"),
                               ({"transfer_visible_ms": 0.0}, "does not tell the times")]:
            cluster = FakeCluster()
            cluster.trace_changes = changes
            with self.assertRaisesRegex(BenchError, words):
                overlap.Asked(cluster, Seeds(), 2000, 16).sample(True)

    def test_a_row_for_each_place_and_prompt(self):
        out, err = self.run_bench("--set", "transfer.transports=pool")
        for where in ("free", "one"):
            self.assertIn(f"| {where} | 16 | 4 | 100.0 (100.0-100.0) | 106.0 (106.0-106.0) "
                          "| 1.060 (1.060-1.060) | 6.00 (6.00-6.00) | 5.00 (5.00-5.00) "
                          "| 1.20 (1.20-1.20) | 1.10 (1.10-1.10) |", out)
            self.assertIn(f"| {where} | 16 | 46.0 (46.0-46.0) | 20.0 (20.0-20.0) "
                          "| 80.0 (80.0-80.0) | 0.990 (0.990-0.990) | 0.50 (0.50-0.50) "
                          "| 0.90 (0.90-0.90) |", out)
        self.assertIn("round 2, one, 16: pairs 2.000", err)
        self.assertEqual(len(FakeCluster.made), 4)
        self.assertEqual(FakeCluster.made[0], ("deploy/local.yaml", [
            "prefill.*.cpus=3", "decode.*.cpus=5", "workers.lend_cpus=off",
            "router.local_prefill=never", "decode.*.prefix_cache=false",
            "transfer.transports=pool"]))

    def test_only_one_of_the_places_moves_threads(self):
        self.run_bench("--places", "free")
        self.assertEqual(self.pinned, [])
        self.assertEqual(self.own, [{5}, {3, 5}] * 2, "the client is where it was in the end")
        self.run_bench("--places", "one", "--rounds", "1")
        self.assertEqual([cpu for _, cpu in self.pinned], [5, 3, 5])

    def test_json_has_every_round(self):
        out, _ = self.run_bench("--json", "--places", "one")
        rounds = json.loads(out)["one"]["16"]
        self.assertEqual([each["pairs"] for each in rounds], [2, 2])

    def test_one_cpu_is_not_enough(self):
        with mock.patch.object(overlap.os, "sched_getaffinity", lambda _: {3}):
            with self.assertRaisesRegex(SystemExit, "two CPUs are needed"):
                overlap.main([])

    def test_flags_that_mean_nothing_are_refused(self):
        for flags, words in [(["--places", "here"], "there are free, one"),
                             (["--rounds", "0"], "--rounds is at least 1"),
                             (["--computed", "16,x"], "numbers, with commas"),
                             (["--computed", "1"], "--computed 1: 2 to 2000"),
                             (["--computed", "100"], "whole blocks of 32 tokens")]:
            status, _, err = printed(overlap.parse, flags)
            self.assertEqual(status, 2)
            self.assertIn(words, err)


class CpuTimes(unittest.TestCase):
    def test_threads_are_told_apart_by_name(self):
        over = threading.Event()
        names = ("transfer", "compute-0.0", "compute-0.1")

        def work(name):
            with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
                file.write(name)
            sum(range(300_000))
            ready.release()
            over.wait()
        ready = threading.Semaphore(0)
        threads = [threading.Thread(target=work, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for _ in threads:
            ready.acquire()
        used = overlap.cpu_ms(os.getpid())
        over.set()
        for thread in threads:
            thread.join()
        self.assertGreater(used["transfer"], 0)
        self.assertGreater(used["compute"], used["transfer"])
        self.assertGreater(used["all"], used["transfer"] + used["compute"])

    def test_all_threads_of_a_process_are_pinned(self):
        allowed = os.sched_getaffinity(0)
        cpu = min(allowed)
        over = threading.Event()
        thread = threading.Thread(target=over.wait)
        thread.start()
        try:
            overlap.pin(os.getpid(), cpu)
            self.assertEqual(os.sched_getaffinity(thread.native_id), {cpu})
        finally:
            over.set()
            thread.join()
            os.sched_setaffinity(0, allowed)


if __name__ == "__main__":
    unittest.main()
