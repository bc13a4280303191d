"""What the programs count agrees with what a client counts."""

import os
import re
import unittest

import prompts
from client import Client, in_parallel
from cluster import Cluster, wait_until
from prompts import ROOT

def names_table():
    """(name, exporters) of common/metrics/names.h."""
    with open(os.path.join(ROOT, "common", "metrics", "names.h")) as file:
        text = re.sub(r"\s+", " ", file.read())
    rows = re.findall(
        r'rows::(?:counter|gauge|info|histogram)\( ?MetricId::k\w+, "([^"]+)", kBy(\w+)', text)
    return rows


class Metrics(unittest.TestCase):
    def test_sums_agree_with_the_client(self):
        with Cluster(sets=["router.local_prefill=auto"]) as cluster:
            asks = [(prompts.ids(1 + 13 * n % 400, seed=n), 1 + 7 * n % 30) for n in range(100)]
            answers = in_parallel([
                lambda ask=ask: cluster.client().completion(
                    ask[0], ask[1], stream=ask[1] % 2 == 0, ignore_eos=True) for ask in asks],
                limit=12)
            for answer in answers:
                self.assertTrue(answer.ok, answer.why())
            cluster.client().completion("x", 2, made_up_field=1)
            refused = cluster.client().completion("x", 2, model="unknown")
            self.assertEqual(refused.status, 404)
            cluster.wait_blocks_free()
            wait_until(lambda: cluster.scrape().sum("vllm:num_requests_running") == 0,
                       "no request running at any process", 5)
            router = cluster.scrape(role="router")
            everything = cluster.scrape()
            by_role = {role: cluster.scrape(role=role).names()
                       for role in ("router", "prefill", "decode")}
            table = names_table()

        generated = sum(len(answer.ids) for answer in answers) + 2
        prompt = sum(len(ids) for ids, _ in asks) + 1
        self.assertEqual(router.sum("vllm:generation_tokens_total"), generated)
        self.assertEqual(everything.sum("vllm:generation_tokens_total"), generated)
        self.assertEqual(router.sum("vllm:prompt_tokens_total"), prompt)
        self.assertEqual(router.sum("vllm:request_success_total", finished_reason="length")
                         + router.sum("vllm:request_success_total", finished_reason="stop"), 101)
        self.assertEqual(router.sum("vllm:time_to_first_token_seconds_count"), 101)
        self.assertEqual(router.sum("vllm:e2e_request_latency_seconds_count"), 101)
        self.assertEqual(router.sum("baton_router_decisions_total"), 101)
        self.assertEqual(router.sum("baton_ignored_request_fields_total",
                                    field="made_up_field"), 1)
        self.assertEqual(sum(answer.usage["prompt_tokens"] for answer in answers), prompt - 1)
        self.assertEqual(sum(answer.usage["completion_tokens"] for answer in answers),
                         generated - 2)
        sent = everything.sum("baton_kv_transfer_bytes_total", direction="sent")
        self.assertEqual(sent, everything.sum("baton_kv_transfer_bytes_total",
                                              direction="received"))
        self.assertGreater(sent, 0)
        self.assertGreater(len(table), 30)
        missing = []
        for name, exporter in table:
            roles = {"Router": ["router"], "Prefill": ["prefill"], "Decode": ["decode"],
                     "Workers": ["prefill", "decode"],
                     "All": ["router", "prefill", "decode"]}[exporter]
            missing += [f"{name} at {role}" for role in roles if name not in by_role[role]]
        self.assertFalse(missing)
        known = {name for name, _ in table}
        unknown = {name for names in by_role.values() for name in names} - known
        self.assertFalse(unknown, "exported, but not in names.h")
        print(f"101 requests: {generated} tokens generated and {prompt} prompt tokens, as the "
              f"client counted; {len(table)} metrics present at their exporters")

    def test_latencies_agree_with_a_stopwatch(self):
        with Cluster(sets=["router.local_prefill=never"]) as cluster:
            answers = [cluster.client().completion(prompts.ids(50 + 20 * n, seed=n), 20,
                                                   ignore_eos=True) for n in range(20)]
            router = cluster.scrape(role="router")
        for name, mine in (("vllm:time_to_first_token_seconds", sum(a.ttft for a in answers)),
                           ("vllm:request_time_per_output_token_seconds",
                            sum((a.times[-1] - a.times[0]) / 19 for a in answers)),
                           ("vllm:e2e_request_latency_seconds",
                            sum(a.times[-1] - a.sent for a in answers))):
            theirs = router.sum(name + "_sum")
            print(f"{name}: {theirs / 20 * 1e3:.2f} ms, by stopwatch {mine / 20 * 1e3:.2f} ms")
            # The client's thread and the connection cost up to some milliseconds a request.
            self.assertLessEqual(theirs, mine * 1.05)
            self.assertGreaterEqual(theirs, mine * 0.8 - 0.005 * 20)

    def test_health(self):
        with Cluster() as cluster:
            for path in ("/health", "/livez", "/readyz"):
                self.assertEqual(cluster.client().request("GET", path)[0], 200, path)
            for process in cluster.processes("prefill") + cluster.processes("decode"):
                base = process["metrics_url"].removesuffix("/metrics")
                for path in ("/livez", "/readyz"):
                    # The cluster is ready with its first decode worker; others follow.
                    wait_until(lambda base=base, path=path:
                               Client(base).request("GET", path)[0] == 200, base + path, 10)
