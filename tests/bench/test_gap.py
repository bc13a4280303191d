"""gap.py, on clusters that are none."""
import json
import os
import tempfile
import unittest
from unittest import mock

import gap
from client import Answer
from printed import printed


def answer(*gaps, ok=True):
    times = [10.0]
    for each in gaps:
        times.append(times[-1] + each / 1e3)
    return Answer(status=200 if ok else 503, done=True, finish="length", times=times,
                  trace={"transfer_visible_ms": 0.25})


class FakeClient:
    def __init__(self, first_gap):
        self.first_gap = first_gap

    def completion(self, prompt, max_tokens, ignore_eos):
        assert len(set(prompt)) > 1 and ignore_eos
        return answer(self.first_gap, *[4.0] * (max_tokens - 2))

    def send(self, path, body, on_token):
        assert path == "/v1/completions" and body["stream"]
        one = Answer()
        while True:  # until on_token() ends it
            one.times.append(0.0)
            on_token(one)


class FakeCluster:
    """Those in a folder called slow have a gap of 10 ms, others one of 5."""

    made = []

    def __init__(self, file, sets):
        self.programs = gap.clusters.BIN
        self.made.append((os.path.basename(self.programs), file, sets))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def client(self):
        return FakeClient(10.0 if self.programs.endswith("slow") else 5.0)


class BenchGap(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.slow = os.path.join(folder.name, "slow")
        os.mkdir(self.slow)
        with open(os.path.join(self.slow, "baton"), "w") as file:
            os.chmod(file.fileno(), 0o755)
        FakeCluster.made = []
        for patch in (mock.patch.object(gap.clusters, "Cluster", FakeCluster),
                      mock.patch.object(gap.clusters, "BIN", "/fast")):
            patch.start()
            self.addCleanup(patch.stop)

    def run_bench(self, *flags):
        status, out, err = printed(
            gap.main, ["--rounds", "2", "--requests", "3", "--tokens", "6", *flags])
        self.assertFalse(status, err)
        return out, err

    def test_a_gap_is_compared_with_the_later_ones_of_its_answer(self):
        one = gap.sample(answer(6.0, 3.0, 2.0, 100.0))
        self.assertAlmostEqual(one["gap_ms"], 6.0)
        self.assertAlmostEqual(one["token_ms"], 3.0)
        self.assertEqual(one["hand_over_ms"], 0.25)

    def test_an_answer_without_gaps_ends_it(self):
        with self.assertRaisesRegex(SystemExit, "an answer of 2 tokens"):
            gap.sample(answer(6.0))
        with self.assertRaisesRegex(SystemExit, "status 503"):
            gap.sample(answer(6.0, 3.0, ok=False))

    def test_figures_are_of_all_answers(self):
        samples = [{"gap_ms": float(i), "token_ms": 2.0, "hand_over_ms": 1.0}
                   for i in range(1, 101)]
        figures = gap.figures(samples)
        self.assertEqual((figures["answers"], figures["ratio_p50"], figures["ratio_p99"]),
                         (100, 25.25, 50.0))

    def test_a_row_for_each_state(self):
        out, err = self.run_bench("--set", "router.log_level=warn")
        self.assertIn("| idle | 6 | 5.00 | 4.00 | 0.25 | 1.25 (1.25-1.25) | 1.25 |", out)
        self.assertIn("| busy | 6 | 5.00 | 4.00 | 0.25 | 1.25 (1.25-1.25) | 1.25 |", out)
        self.assertIn("round 2, /fast, busy: answers 3.00", err)
        self.assertEqual(FakeCluster.made[0], (
            "fast", "deploy/local.yaml", ["router.local_prefill=never", "router.log_level=warn"]))

    def test_other_programs_are_measured_in_turn(self):
        out, _ = self.run_bench("--against", self.slow, "--json")
        self.assertEqual([made[0] for made in FakeCluster.made], ["fast", "slow", "fast", "slow"])
        results = json.loads(out)
        self.assertEqual([len(each) for each in results[self.slow]["busy"]], [3, 3])
        self.assertAlmostEqual(results[self.slow]["idle"][1][0]["gap_ms"], 10)

    def test_flags_that_mean_nothing_are_refused(self):
        for flags, words in [(["--tokens", "2"], "--tokens is at least 3"),
                             (["--rounds", "0"], "--rounds is at least 1"),
                             (["--against", "/nowhere"], "/nowhere has no program baton")]:
            status, _, err = printed(gap.parse, flags)
            self.assertEqual(status, 2)
            self.assertIn(words, err)


if __name__ == "__main__":
    unittest.main()
