"""Reads the Prometheus text that every program serves at /metrics."""

import re
import urllib.request

_LINE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')


class Scrape:
    """What one process exported at one moment: a list of (name, labels, value)."""

    def __init__(self, text):
        self.samples = []
        for line in text.splitlines():
            if not line or line.startswith("#"):
                continue
            match = _LINE.match(line)
            if match is None:
                raise AssertionError(f"not a line of the Prometheus text format: {line!r}")
            labels = dict(_LABEL.findall(match.group(2) or ""))
            self.samples.append((match.group(1), labels, float(match.group(3))))

    def sum(self, name, **labels):
        """Sum of all series of that name which have these labels; 0 without any."""
        return sum(value for n, have, value in self.samples
                   if n == name and all(have.get(k) == v for k, v in labels.items()))

    def names(self):
        """Names of metrics; the parts of a histogram count as the histogram."""
        out = set()
        for name, labels, _ in self.samples:
            if "le" in labels:
                name = name.removesuffix("_bucket")
            else:
                name = re.sub(r"_(sum|count)$", "", name)
            out.add(name)
        return out

    def buckets(self, name, **labels):
        """Observations of a histogram by upper bound, not cumulated."""
        total = {}
        for n, have, value in self.samples:
            if n == name + "_bucket" and all(have.get(k) == v for k, v in labels.items()):
                bound = float(have["le"].replace("+Inf", "inf"))
                total[bound] = total.get(bound, 0) + value
        out = {}
        before = 0
        for bound in sorted(total):
            out[bound] = total[bound] - before
            before = total[bound]
        return out

    def blocks(self):
        """KV blocks by state."""
        return {labels["state"]: int(value) for n, labels, value in self.samples
                if n == "baton_kv_blocks"}


def scrape(url, timeout=10):
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return Scrape(answer.read().decode())
