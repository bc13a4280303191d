"""`baton bench serve` against a cluster: what it reports is what the router counted."""

import bisect
import json
import os
import signal
import subprocess
import unittest

from cluster import BIN, ROOT, Cluster, run_briefly, wait_until

TTFT = "vllm:time_to_first_token_seconds"


def bench(cluster, *flags):
    """The JSON object that it prints."""
    done = run_briefly(["baton", "bench", "serve", "--url", cluster.url, "--json", *flags])
    if done.returncode != 0 or done.stderr:
        raise AssertionError(f"exit status {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def counted(router, before):
    return {name: router.sum(name) - before.sum(name)
            for name in ("vllm:generation_tokens_total", "vllm:prompt_tokens_total",
                         TTFT + "_count")}


def bucket_of_rank(router, before, share):
    """Index of the bucket of the router's histogram that holds the value of this rank."""
    old, new = before.buckets(TTFT), router.buckets(TTFT)
    bounds = sorted(new)
    counts = [new[b] - old.get(b, 0) for b in bounds]
    rank = share * sum(counts)
    seen = 0
    for index, count in enumerate(counts):
        seen += count
        if seen >= rank:
            return bounds, index
    raise AssertionError("an empty histogram")


class BenchServe(unittest.TestCase):
    def check_counts(self, result, router, before):
        unmeasured = result["unmeasured"]
        self.assertEqual(result["failed"], 0, result["failures"])
        self.assertEqual(result["sent"], result["completed"])
        self.assertEqual(result["tokens_counted_by"], "usage")
        counts = counted(router, before)
        self.assertEqual(counts["vllm:generation_tokens_total"],
                         result["output_tokens"] + unmeasured["completion_tokens"])
        self.assertEqual(counts["vllm:prompt_tokens_total"],
                         result["prompt_tokens"] + unmeasured["prompt_tokens"])
        self.assertEqual(counts[TTFT + "_count"], result["sent"] + unmeasured["requests"])

    def check_ttft(self, result, router, before):
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            bounds, theirs = bucket_of_rank(router, before, share)
            mine = bisect.bisect_left(bounds, result["ttft_ms"][name] / 1e3)
            message = (f"TTFT {name}: {result['ttft_ms'][name]} ms, the router has it below "
                       f"{bounds[theirs]} s")
            self.assertLessEqual(mine, theirs + 1, message)
            # The router also counts calibration and warm-up, which may have been the slowest.
            if name == "p50":
                self.assertGreaterEqual(mine, theirs - 1, message)

    def test_agrees_with_the_router(self):
        with Cluster() as cluster:
            # A closed loop holds few requests at once, so that the router sees what the client does.
            before = cluster.scrape(role="router")
            closed = bench(cluster, "--concurrency", "2", "--requests", "24", "--input", "60",
                           "--output", "12", "--warmup", "0")
            router = cluster.scrape(role="router")
            self.assertEqual(closed["completed"], 24)
            self.assertEqual(closed["output_tokens"], 24 * 12)
            self.assertAlmostEqual(closed["prompt_tokens_mean"], 60, delta=1)
            self.check_counts(closed, router, before)
            self.check_ttft(closed, router, before)

            before = router
            poisson = bench(cluster, "--rate", "4", "--duration", "4", "--input", "30",
                            "--output", "8", "--warmup", "2", "--endpoint", "chat",
                            "--slo-ttft-ms", "20000", "--slo-tpot-ms", "5000")
            router = cluster.scrape(role="router")
            self.assertGreater(poisson["completed"], 5)
            self.assertEqual(poisson["attainment"], 1)
            self.assertAlmostEqual(poisson["goodput_rps"], poisson["completed"] / 4, delta=0.01)
            self.assertAlmostEqual(poisson["prompt_tokens_mean"], 30, delta=1.5)
            self.assertLess(poisson["client_cpu_s"], 0.5)
            self.check_counts(poisson, router, before)
            self.check_ttft(poisson, router, before)
            self.check_errors(cluster)
            self.check_interrupt(cluster)
            cluster.wait_blocks_free()
        print(f"closed loop: TTFT p50 {closed['ttft_ms']['p50']:.1f} ms, "
              f"{closed['client_cpu_us_per_event']:.1f} us of CPU an event; Poisson: "
              f"{poisson['completed']} requests, lag p99 {poisson['client_lag_ms']['p99']:.2f} ms; "
              "tokens and requests as the router counted")

    def check_errors(self, cluster):
        def error(*flags):
            done = run_briefly(["baton", "bench", "serve", *flags])
            self.assertEqual(done.stdout, "")
            return done.returncode, done.stderr.rstrip("\n")

        self.assertEqual(error("--url", "http://127.0.0.1:1", "--rate", "1"),
                         (1, "baton: http://127.0.0.1:1/v1/models: connection refused; is the "
                             "server running?"))
        self.assertEqual(error("--url", cluster.url, "--rate", "1", "--model", "other")[0], 1)
        self.assertEqual(error("--url", cluster.url),
                         (2, "baton: give one of --rate R (requests a second), --trace FILE and "
                             "--concurrency N"))
        # Nothing fits the context: every request fails, and the reason is told.
        done = run_briefly(["baton", "bench", "serve", "--url", cluster.url, "--concurrency", "1",
                            "--requests", "3", "--warmup", "0", "--input", "100000", "--json"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("baton: all 3 requests failed: 3 x http_400 (", done.stderr)
        self.assertEqual(json.loads(done.stdout)["failed"], 3)

    def check_interrupt(self, cluster):
        command = [os.path.join(BIN, "baton"), "bench", "serve", "--url", cluster.url, "--json",
                   "--concurrency", "1", "--input", "20", "--output", "4", "--warmup", "0"]
        def answered():
            return cluster.scrape(role="router").sum(TTFT + "_count")

        before = answered()
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            try:
                # Two questions come first.
                wait_until(lambda: answered() >= before + 5, "some answers")
            finally:
                process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130, err)
        result = json.loads(out)
        self.assertTrue(result["interrupted"])
        self.assertGreater(result["completed"], 0)
        self.assertLessEqual(result["unfinished"], 1)
