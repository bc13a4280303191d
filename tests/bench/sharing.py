#!/usr/bin/env python3
"""How the workers of one machine share its CPUs: fixed, lent, or all for all, measured in turn.

Each round starts a cluster of each kind on the same CPUs and asks of it
  one stream alone: time to the first token of a 500-token prompt, time per output token after it;
  streams under load: N streams decode while 2,000-token prompts arrive one after the other: their
    slowest and their 99th-percentile gap, and the time to the first token of those prompts.
Prints the median over the rounds, with the least and the greatest. Prompts are unique; every
prompt is computed on the prefill worker.
"""

import argparse
import json
import os
import statistics
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import cluster as clusters  # noqa: E402
import prompts  # noqa: E402
from client import Background  # noqa: E402

KINDS = ("fixed", "lending", "both")
COLUMNS = {
    "ttft_ms": "TTFT 500, ms",
    "tpot_ms": "TPOT, ms",
    "gap_max_ms": "slowest gap, ms",
    "gap_p99_ms": "p99 gap, ms",
    "stream_tpot_ms": "their TPOT, ms",
    "long_ttft_ms": "TTFT 2,000, ms",
}


def settings_of(kind):
    if kind == "both":
        cpus = ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))
        return [f"prefill.*.cpus={cpus}", f"decode.*.cpus={cpus}"]
    return ["workers.lend_cpus=" + ("off" if kind == "fixed" else "auto")]


class Seeds:
    """Every prompt of a run differs from all others."""

    def __init__(self):
        self._next = int(time.time()) % 10_000 * 1_000

    def take(self):
        self._next += 1
        return self._next


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def one_stream(cluster, seeds, requests):
    ttft, tpot = [], []
    for _ in range(requests + 1):
        answer = cluster.client().completion(prompts.ids(500, seeds.take()), max_tokens=64,
                                             ignore_eos=True)
        if not answer.ok:
            raise SystemExit(f"sharing: {answer.why()}")
        ttft.append(answer.ttft * 1e3)
        tpot.append((answer.times[-1] - answer.times[0]) / (len(answer.times) - 1) * 1e3)
    return {"ttft_ms": statistics.median(ttft[1:]), "tpot_ms": statistics.median(tpot[1:])}


def under_load(cluster, seeds, streams, seconds):
    started = threading.Semaphore(0)
    body = {"max_tokens": 1500, "ignore_eos": True, "temperature": 0, "stream": True,
            "return_token_ids": True}
    stop = threading.Event()

    class Stopped(Exception):
        pass

    def stream(seed):
        times = []

        def on_token(answer):
            times.append(answer.times[-1])
            if len(times) == 8:
                started.release()
            if stop.is_set():
                raise Stopped
        try:
            cluster.client().send("/v1/completions", {**body, "prompt": prompts.ids(64, seed)},
                                  on_token)
        except Stopped:
            pass
        return times

    running = [Background(lambda seed=seeds.take(): stream(seed)) for _ in range(streams)]
    for _ in running:
        started.acquire(timeout=60)
    begin = time.monotonic()
    ttft = []
    while time.monotonic() < begin + seconds:
        answer = cluster.client().completion(prompts.ids(2000, seeds.take()), max_tokens=1)
        if not answer.ok:
            raise SystemExit(f"sharing: {answer.why()}")
        ttft.append(answer.ttft * 1e3)
    end = time.monotonic()
    stop.set()
    gaps = []
    for each in running:
        times = [t for t in each.result() if begin <= t <= end]
        gaps += [(b - a) * 1e3 for a, b in zip(times, times[1:])]
    return {"gap_max_ms": max(gaps), "gap_p99_ms": percentile(gaps, 0.99),
            "stream_tpot_ms": statistics.fmean(gaps), "long_ttft_ms": statistics.median(ttft)}


def measure(kind, arguments, seeds):
    sets = [*settings_of(kind), "router.local_prefill=never", *arguments.set]
    with clusters.Cluster(file=arguments.file, sets=sets) as cluster:
        one_stream(cluster, seeds, 1)
        out = one_stream(cluster, seeds, arguments.requests)
        out.update(under_load(cluster, seeds, arguments.streams, arguments.seconds))
        out["borrowed_s"] = sum(cluster.scrape(role=role).sum("baton_borrowed_cpu_seconds_total")
                                for role in ("prefill", "decode"))
    return out


def table(results):
    lines = ["| | " + " | ".join(COLUMNS.values()) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for kind, rounds in results.items():
        cells = []
        for key in COLUMNS:
            values = [each[key] for each in rounds]
            cells.append(f"{statistics.median(values):.1f} ({min(values):.1f}-{max(values):.1f})")
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(prog="sharing", description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default=",".join(KINDS), help="which, of " + ", ".join(KINDS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=8, help="one after the other, a round")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5, help="of load, a round")
    parser.add_argument("--file", default="deploy/local.yaml")
    parser.add_argument("--set", action="append", default=[], help="as of baton up")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    kinds = arguments.kinds.split(",")
    if not set(kinds) <= set(KINDS):
        parser.error("--kinds: there are " + ", ".join(KINDS))
    seeds = Seeds()
    results = {kind: [] for kind in kinds}
    for round_number in range(arguments.rounds):
        for kind in kinds:
            results[kind].append(measure(kind, arguments, seeds))
            print(f"round {round_number + 1}, {kind}: " + ", ".join(
                f"{key} {value:.2f}" for key, value in results[kind][-1].items()),
                file=sys.stderr, flush=True)
    print(json.dumps(results) if arguments.json else table(results))


if __name__ == "__main__":
    main()
