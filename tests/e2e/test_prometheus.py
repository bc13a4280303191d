"""A real Prometheus, with deploy/prometheus and the expressions of deploy/grafana, on a real cluster:
its numbers are the client's, and every expression has data."""

import json
import math
import os
import re
import signal
import time
import unittest
import urllib.request

import prompts
from client import Background, in_parallel
from cluster import Cluster, wait_until
from prometheus import Prometheus, promtool
from prompts import ROOT

REQUESTS = 100
MODEL = "smollm2-135m-instruct"
TTFT = "vllm:time_to_first_token_seconds"
TPOT = "vllm:request_time_per_output_token_seconds"
# What stays 0 in this run: accidents that a test cannot cause by request alone. Their series must
# be there all the same.
ZERO = {
    "baton_kv_lease_expired_total": "a sender that stalls for seconds, but lives",
    "baton_kv_messages_dropped_total": "late or malformed hand-over messages",
    "baton_kv_transfer_failures_total": "a worker that dies in the midst of a hand-over",
    'state="quarantined"': "a late writer",
    'code=~"internal|': "errors that are the server's fault",
    'code="resource_exhausted"': "more than router.max_waiting requests",
    "kv_transports_passed_over_total": "workers of one machine map each other's memory",
    "deriv(vllm:num_requests_waiting": "zero again once the queue is empty",
    "max_over_time(baton_workers": "no worker missing at the moment of asking",
    "baton:ttft_slow:": "a machine too slow for the limits of the alerts",
    "baton:tpot_slow:": "a machine too slow for the limits of the alerts",
}
# What promtool's style check says of names that are vLLM's.
VLLM_NAMES = re.compile(r"^vllm:\S+ (metric names should not contain ':'|"
                        r'non-counter metrics should not have "_total" suffix)$')


def dashboard_expressions():
    with open(os.path.join(ROOT, "deploy", "grafana", "baton.json")) as file:
        panels = json.load(file)["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def vllm_expressions():
    with open(os.path.join(ROOT, "tests", "e2e", "vllm_dashboards.txt")) as file:
        return [line.strip() for line in file if line.strip() and not line.startswith("#")]


def document_expressions():
    """What docs/troubleshooting.md tells to ask: code with a selector, a range or a comparison."""
    with open(os.path.join(ROOT, "docs", "troubleshooting.md")) as file:
        text = file.read()
    code = re.findall(r"`([^`\n]+)`", text)
    for block in re.findall(r"^```\n(.*?)^```", text, re.M | re.S):
        code += block.splitlines()
    return [one for one in code if re.search(r"(vllm:|baton_|^up )", one) and re.search(r"[{(]|==", one)]


def filled_in(expression, window):
    """As Grafana would fill in its variables."""
    for name in ("$__rate_interval", "$__range"):
        expression = expression.replace(name, window)
    expression = expression.replace('model_name="$model_name"', f'model_name="{MODEL}"')
    for name, value in (("$slo_ttft", "0.5"), ("$slo_tpot", "0.05")):
        expression = expression.replace(name, value)
    return re.sub(r'=~"\$\w+"', '=~".*"', expression)


def left_sides(alert):
    """What an alert compares: its expression without comparisons with a number."""
    parts, depth, start = [], 0, 0
    for match in re.finditer(r'"[^"]*"|[(){}\[\]]|\band\b', alert):
        token = match[0]
        depth += (token in "({[") - (token in ")}]") if len(token) == 1 else 0
        if token == "and" and depth == 0:
            parts.append(alert[start:match.start()])
            start = match.end()
    parts.append(alert[start:])
    return [re.sub(r" [<>] [0-9.]+\s*$", "", part).strip() for part in parts]


def nearest_rank(values, q):
    return sorted(values)[math.ceil(q * len(values)) - 1]


def cluster_with_prometheus(case):
    # Pools so small that many streams at once are preempted. On a busy machine a peer may be silent
    # for longer than it should; that would be an alert.
    sets = ["router.local_prefill=auto", "decode.*.kv_cache=32blocks", "test.time_scale=5"]
    cluster = case.enterClassContext(Cluster("deploy/local-2p2d.yaml", sets=sets))
    return cluster, case.enterClassContext(Prometheus(cluster.url))


class OnePrometheus(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster, cls.prometheus = cluster_with_prometheus(cls)
        wait_until(lambda: cls.prometheus.targets() == {
            name: "up" for name in ("router", "p0", "p1", "d0", "d1")}, "all targets up")
        cls.begin = time.time()
        asks = [(prompts.ids(1 + 13 * n % 200, seed=n), 1 + 7 * n % 20)
                for n in range(REQUESTS)]
        cls.answers = in_parallel([
            lambda ask=ask: cls.cluster.client().completion(ask[0], ask[1], ignore_eos=True)
            for ask in asks], limit=6)
        for answer in cls.answers:
            assert answer.ok, answer.why()
        wait_until(lambda: cls.prometheus.value("sum(vllm:request_success_total)") == REQUESTS,
                   "Prometheus to have seen all requests", 10)
        cls.healthy = time.time()
        # A busy machine may be slow; anything else would be wrong.
        cls.firing = cls.prometheus.series(
            'ALERTS{alertstate="firing",alertname!~"BatonSlow.*|BatonQueue.*"}')
        cls.cause_rare_events()
        cls.end = time.time()

    @classmethod
    def cause_rare_events(cls):
        cls.extra = 0
        client = cls.cluster.client()
        assert client.completion("x", 2, model="unknown").status == 404
        assert client.completion("x", 2, made_up_field=1).ok
        for _ in range(2):  # the second finds the first's blocks
            assert client.completion(prompts.ids(300, seed=1), 2).ok

        def leave(_answer):
            raise ConnectionError("the client leaves")
        client.send("/v1/completions", {"prompt": "x", "max_tokens": 100, "stream": True,
                                        "return_token_ids": True}, leave)
        flowing = []  # one entry for each stream that has some tokens

        def on_token(answer):
            if len(answer.times) == 3:
                flowing.append(answer)

        def streams(number, prompt, tokens):
            body = {"max_tokens": tokens, "temperature": 0, "stream": True, "ignore_eos": True,
                    "return_token_ids": True}
            return [Background(lambda seed=seed: cls.cluster.client().send(
                "/v1/completions", {**body, "prompt": prompts.ids(prompt, seed=seed)}, on_token))
                for seed in range(number)]
        # Ten fit each decode worker and six wait, for seconds; when two have grown, one is preempted.
        # On a busy machine prefill may feed them so slowly that no two are long at once.
        for _ in range(5):
            for stream in streams(32, 40, 250):
                assert stream.result().ok
            cls.extra += 32
            if any(cls.cluster.scrape(name).sum("vllm:num_preemptions_total") for name in ("d0", "d1")):
                break
        wait_until(lambda: cls.prometheus.value("sum(vllm:num_preemptions_total)"),
                   "a preemption in Prometheus", 20)
        flowing.clear()
        long = streams(4, 40, 250)
        wait_until(lambda: len(flowing) == 4, "four streams that flow")
        wait_until(lambda: cls.cluster.scrape("d1").sum("vllm:num_requests_running"),
                   "streams on d1")
        os.kill(cls.cluster.process("d1")["pid"], signal.SIGKILL)
        for stream in long:
            stream.result()
        wait_until(lambda: cls.prometheus.value(
            'sum(vllm:request_success_total{finished_reason=~"length|stop|error"})')
            >= REQUESTS + 7 + cls.extra, "Prometheus to have seen the last request", 15)

    def test_tokens_are_those_that_the_client_counted(self):
        at = {"time": self.healthy}
        for expression, mine in (
                ("sum(vllm:generation_tokens_total)", sum(len(a.ids) for a in self.answers)),
                ("sum(vllm:request_generation_tokens_sum)", sum(len(a.ids) for a in self.answers)),
                ("sum(vllm:prompt_tokens_total)",
                 sum(a.usage["prompt_tokens"] for a in self.answers)),
                ("sum(vllm:request_prompt_tokens_sum)",
                 sum(a.usage["prompt_tokens"] for a in self.answers)),
                ("sum(vllm:time_to_first_token_seconds_count)", REQUESTS)):
            theirs = list(self.prometheus.series(expression, **at).values())
            print(f"{expression} = {theirs[0]:.0f}, by the client {mine}")
            self.assertEqual(theirs, [mine])

    def test_quantiles_agree_with_the_stopwatch(self):
        tpots = [(a.times[-1] - a.times[0]) / (len(a.ids) - 1)
                 for a in self.answers if len(a.ids) > 1]
        for metric, mine in ((TTFT, [a.ttft for a in self.answers]), (TPOT, tpots)):
            buckets = self.prometheus.series(f"sum by (le) ({metric}_bucket)", time=self.healthy)
            bounds = sorted(float(json.loads(labels)["le"]) for labels in buckets)
            for q in (0.5, 0.99):
                expression = f"histogram_quantile({q}, sum by (le) ({metric}_bucket))"
                theirs, = self.prometheus.series(expression, time=self.healthy).values()
                measured = nearest_rank(mine, q)
                # On a busy machine a client that gets its turn late sees tokens in bunches: both
                # differ by a factor, though never by that of a wrong unit.
                at = next(i for i, bound in enumerate(bounds) if bound >= theirs)
                below = (bounds[at - 1] if at else 0.0) / 4
                above = bounds[at] * 4
                print(f"{metric} p{100 * q:.0f}: {theirs * 1e3:.2f} ms (accepted: {below * 1e3:g} to "
                      f"{above * 1e3:g}), by stopwatch {measured * 1e3:.2f} ms")
                self.assertGreaterEqual(measured, below)
                self.assertLessEqual(measured, above)

    def check_data(self, expressions, where):
        window = f"{math.ceil(self.end - self.begin) + 5}s"
        faults, zero = [], 0
        for expression in expressions:
            text = filled_in(expression, window)
            samples = self.prometheus.values_over(text, self.begin, self.end)
            settled = [value for at, value in samples if at > self.healthy]
            if not samples or not settled:
                faults.append(f"empty: {text}")
            elif not all(math.isfinite(value) for value in settled):
                faults.append(f"not a number: {text}")
            elif not any(value for _, value in samples if math.isfinite(value)):
                zero += 1
                if not any(part in text for part in ZERO):
                    faults.append(f"always 0: {text}")
        print(f"{where}: {len(expressions)} expressions, all with data; {zero} of them are 0 where "
              f"nothing goes wrong")
        self.assertFalse(faults, "\n".join(faults))

    def test_every_expression_of_the_dashboard_has_data(self):
        self.check_data(dashboard_expressions(), "Grafana dashboard")

    def test_expressions_of_the_documents_are_answered(self):
        expressions = document_expressions()
        self.assertGreater(len(expressions), 20)
        for expression in expressions:
            if " == 0" not in expression:
                self.assertTrue(self.prometheus.series(expression, time=self.end), expression)
            else:
                self.prometheus.series(expression)

    def test_every_expression_of_vllms_dashboards_has_data(self):
        self.check_data(vllm_expressions(), "vLLM's dashboards")

    def test_every_expression_of_the_rules_has_data(self):
        rules = self.prometheus.rules()
        alerts = [rule for rule in rules if rule["type"] == "alerting"]
        self.assertGreater(len(alerts), 15)
        for rule in rules:
            self.assertEqual(rule["health"], "ok", rule)
        self.check_data([rule["name"] for rule in rules if rule["type"] == "recording"],
                        "recorded series")
        self.check_data([side for rule in alerts for side in left_sides(rule["query"])],
                        "alerts")
        self.assertFalse(self.firing, "alerts of a healthy cluster")

    def test_discovery_follows_the_workers(self):
        def scraped():
            address = self.cluster.process("d1")["metrics_url"].split("/")[2]
            return self.prometheus.value(f'up{{process="d1",instance="{address}"}}') == 1
        wait_until(scraped, "the new d1 as a target", 30)

    def test_metrics_pass_promtool(self):
        for process in self.cluster.processes():
            with urllib.request.urlopen(process["metrics_url"], timeout=10) as answer:
                text = answer.read().decode()
            checked = promtool("check", "metrics", text=text)
            found = [line for line in (checked.stdout + checked.stderr).splitlines()
                     if line and not VLLM_NAMES.match(line)]
            self.assertFalse(found, process["name"])


class Files(unittest.TestCase):
    def test_configuration_and_rules_pass_promtool(self):
        for arguments in (("check", "config", "prometheus.yml"),
                          ("check", "config", "kubernetes.yml"), ("check", "rules", "alerts.yml"),
                          ("test", "rules", "alerts_test.yml")):
            done = promtool(*arguments)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_left_sides_of_alerts(self):
        self.assertEqual(left_sides('rate(a{b="x and y"}[5m]) / (sum(c) > 0) > 0.5 and d < 1'),
                         ['rate(a{b="x and y"}[5m]) / (sum(c) > 0)', "d"])
