#!/usr/bin/env python3
"""Dashboard, alerts and recorded rules use only metrics, labels and bucket bounds of
common/metrics/names.h; every alert is explained in docs/troubleshooting.md and has a test; every
metric is in docs/metrics.md.

That the expressions have data, and that Prometheus accepts the files, is for
tests/e2e/test_prometheus.py.
"""

import json
import re
import subprocess
import sys

from source_tree import ROOT, Findings

ALERTS = "deploy/prometheus/alerts.yml"
ALERTS_TEST = "deploy/prometheus/alerts_test.yml"
DASHBOARD = "deploy/grafana/baton.json"
TROUBLESHOOTING = "docs/troubleshooting.md"
METRICS = "docs/metrics.md"
VLLM = "tests/e2e/vllm_dashboards.txt"

ROW = re.compile(
    r'rows::(\w+)\( ?MetricId::k\w+, "([^"]+)", kBy(\w+), (?:k(\w+), )?\{([^}]*)\}'
)
BUCKETS = re.compile(r"constexpr std::array k(\w+) = \{([^}]*)\}")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
NAME = re.compile(r"[a-zA-Z_:][\w:]*")
SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\s*\{([^}]*)\}")
GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')
WORDS = {"sum", "rate", "increase", "by", "and", "or", "unless", "histogram_quantile", "count",
         "max", "min", "avg", "deriv", "max_over_time", "avg_over_time", "label_values", "on",
         "ignoring", "without", "bool"}
TARGET_LABELS = {"job", "instance", "process"}  # of Prometheus' own making
FOREIGN = {"up": TARGET_LABELS}
REQUEST_FIELDS = {"baton_trace"}  # of the API, not metrics


def table() -> dict[str, tuple[set[str], set[float]]]:
    """Series by name: their labels, and the bounds of a histogram's buckets."""
    text = (ROOT / "common/metrics/names.h").read_text(encoding="utf-8")
    bounds = {
        name: {float(number) for number in numbers.split(",") if number.strip()}
        for name, numbers in BUCKETS.findall(text)
    }
    out = {}
    for kind, name, by, buckets, labels in ROW.findall(re.sub(r"\s+", " ", text)):
        known = set(re.findall(r'"(\w+)"', labels)) | {"model_name", "role"} | TARGET_LABELS
        if by != "Router":
            known.add("worker")
        if kind == "histogram":
            out[name + "_sum"] = out[name + "_count"] = (known, set())
            out[name + "_bucket"] = (known | {"le"}, bounds[buckets])
        else:
            out[name] = (known, set())
    return out


def rules() -> tuple[list[str], list[dict[str, str]]]:
    """(names of recorded series, rules as {alert or record, expr, runbook, ...})."""
    found: list[dict[str, str]] = []
    for line in (ROOT / ALERTS).read_text(encoding="utf-8").splitlines():
        match = re.match(r"\s+(- )?(alert|record|expr|for|summary|runbook): (.*)", line)
        if match is None:
            continue
        if match[1]:
            found.append({})
        found[-1][match[2]] = match[3]
    return [rule["record"] for rule in found if "record" in rule], found


class Checker:
    def __init__(self, findings: Findings, recorded: list[str]) -> None:
        self.findings = findings
        self.series = table()
        self.recorded = set(recorded)
        self.labels = set().union(*(labels for labels, _ in self.series.values()))

    def expression(self, where: str, text: str) -> None:
        for name, body in SELECTOR.findall(text):
            self.selector(where, name, body)
        for group in GROUPING.findall(text):
            for label in filter(None, re.split(r"[,\s]+", group)):
                if label not in self.labels:
                    self.findings.add(where, f"groups by {label}, which no metric has: {text}")
        plain = GROUPING.sub("", re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", STRING.sub('""', text)))
        plain = re.sub(r"label_values\(([^,]*),.*\)", r"label_values(\1)", plain)
        for name in NAME.findall(plain):
            if name not in WORDS and not self.known(name):
                self.findings.add(where, f"names.h has no {name}: {text}")

    def known(self, name: str) -> bool:
        return name in self.series or name in self.recorded or name in FOREIGN

    def metric(self, name: str) -> str:
        """A histogram by its own name, whichever of its series is named."""
        own = re.sub(r"_(sum|count|bucket)$", "", name)
        return own if own + "_bucket" in self.series else name

    def selector(self, where: str, name: str, body: str) -> None:
        labels, bounds = self.series.get(name, (FOREIGN.get(name), set()))
        for label, _, value in MATCHER.findall(body):
            if labels is not None and label not in labels:
                self.findings.add(where, f"{name} has no label {label}")
            if label == "le" and re.fullmatch(r"[\d.]+", value) and float(value) not in bounds:
                self.findings.add(where, f"{name} has no bucket up to {value}")


def check_dashboard(checker: Checker) -> None:
    made = subprocess.run([sys.executable, ROOT / "deploy/grafana/make_dashboard.py", "--check"],
                          capture_output=True, text=True, check=False)
    if made.returncode != 0:
        checker.findings.add(DASHBOARD, made.stdout.strip() or made.stderr.strip())
    board = json.loads((ROOT / DASHBOARD).read_text(encoding="utf-8"))
    bounds = {}
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            checker.expression(DASHBOARD, target["expr"])
            for name, body in SELECTOR.findall(target["expr"]):
                for variable in re.findall(r'le=~"\$(\w+)\(', body):
                    bounds[variable] = checker.series[name][1]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            checker.expression(DASHBOARD, variable["definition"])
        if variable["type"] == "custom":
            for option in variable["options"]:
                if float(option["value"]) not in bounds[variable["name"]]:
                    checker.findings.add(
                        DASHBOARD, f"{variable['name']} {option['value']} is no bucket bound")


def check_alerts(checker: Checker, found: list[dict[str, str]]) -> None:
    document = ROOT / TROUBLESHOOTING
    text = document.read_text(encoding="utf-8") if document.exists() else ""
    anchors = {
        re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", text, re.M)
    }
    tests = (ROOT / ALERTS_TEST).read_text(encoding="utf-8")
    for rule in found:
        checker.expression(ALERTS, rule["expr"])
        if "alert" not in rule:
            continue
        name = rule["alert"]
        for key in ("for", "summary", "runbook"):
            if key not in rule:
                checker.findings.add(ALERTS, f"{name} has no {key}")
        page, _, anchor = rule.get("runbook", "").partition("#")
        if page != TROUBLESHOOTING or anchor not in anchors:
            checker.findings.add(ALERTS, f"{name}: no section {rule.get('runbook')}")
        if name not in text:
            checker.findings.add(TROUBLESHOOTING, f"does not name {name}")
        if not re.search(rf"alertname: {name}\n\s+eval_time: \w+\n\s+exp_alerts:", tests):
            checker.findings.add(ALERTS_TEST, f"does not show {name} firing")
        if tests.count(f"alertname: {name}, eval_time") < 2:
            checker.findings.add(ALERTS_TEST, f"does not show {name} silent twice")


def check_vllm(checker: Checker) -> None:
    checker.labels.add("engine")  # vLLM's label; a matcher of "" or anything accepts its absence
    for line in (ROOT / VLLM).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            for name in NAME.findall(STRING.sub("", line)):
                if name.startswith("vllm:") and not checker.known(name):
                    checker.findings.add(VLLM, f"names.h has no {name}")


def check_document(checker: Checker) -> None:
    """Series that documents name in code are there, and docs/metrics.md names every metric."""
    for path in (TROUBLESHOOTING, METRICS, "docs/capacity.md", "docs/operations.md"):
        text = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).exists() else ""
        for name in re.findall(r"\b(?:vllm:|baton_|gen_ai_)\w+\b(?!\*)", text):
            histogram = name + "_sum" in checker.series
            if not histogram and not checker.known(name) and name not in REQUEST_FIELDS:
                checker.findings.add(path, f"names.h has no {name}")
    text = (ROOT / METRICS).read_text(encoding="utf-8")
    named = {checker.metric(word) for word in re.findall(r"[\w:]+", text)}
    for metric in sorted(set(map(checker.metric, checker.series))):
        if metric not in named:
            checker.findings.add(METRICS, f"does not name {metric}")


def main() -> int:
    findings = Findings("dashboards")
    recorded, found = rules()
    checker = Checker(findings, recorded)
    if len(checker.series) < 60:
        findings.add("common/metrics/names.h", f"only {len(checker.series)} series were found")
    check_dashboard(checker)
    check_alerts(checker, found)
    check_vllm(checker)
    check_document(checker)
    return findings.finish()


if __name__ == "__main__":
    sys.exit(main())
