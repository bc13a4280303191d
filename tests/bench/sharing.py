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

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import cluster as clusters  # noqa: E402
import streams  # noqa: E402
from runs import BenchError, cell, spread  # noqa: E402

KINDS = ("fixed", "lending", "both")
COLUMNS = {
    "ttft_ms": "TTFT 500, ms",
    "tpot_ms": "TPOT, ms",
    "gap_max_ms": "slowest gap, ms",
    "gap_p99_ms": "p99 gap, ms",
    "gap_mean_ms": "mean gap, ms",
    "long_ttft_ms": "TTFT 2,000, ms",
}


def settings_of(kind):
    if kind == "both":
        cpus = ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))
        return [f"prefill.*.cpus={cpus}", f"decode.*.cpus={cpus}"]
    return ["workers.lend_cpus=" + ("off" if kind == "fixed" else "auto")]


def measure(kind, arguments, seeds):
    sets = [*settings_of(kind), "router.local_prefill=never", *arguments.set]
    with clusters.Cluster(file=arguments.file, sets=sets) as cluster:
        endpoint = streams.Endpoint(cluster.url)
        streams.one_stream(endpoint, seeds, 2)
        out = streams.one_stream(endpoint, seeds, arguments.requests)
        out.update(streams.beside(endpoint, seeds, arguments.streams, arguments.seconds))
        out = {key: statistics.median(value) if isinstance(value, list) else value
               for key, value in out.items()}
        out["borrowed_s"] = sum(cluster.scrape(role=role).sum("baton_borrowed_cpu_seconds_total")
                                for role in ("prefill", "decode"))
    return out


def table(results):
    lines = ["| | " + " | ".join(COLUMNS.values()) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for kind, rounds in results.items():
        cells = [cell(spread([each[key] for each in rounds]), 1) for key in COLUMNS]
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
    seeds = streams.Seeds()
    results = {kind: [] for kind in kinds}
    for round_number in range(arguments.rounds):
        for kind in kinds:
            try:
                results[kind].append(measure(kind, arguments, seeds))
            except BenchError as error:
                raise SystemExit(f"sharing: {error}") from error
            print(f"round {round_number + 1}, {kind}: " + ", ".join(
                f"{key} {value:.2f}" for key, value in results[kind][-1].items()),
                file=sys.stderr, flush=True)
    print(json.dumps(results) if arguments.json else table(results))


if __name__ == "__main__":
    main()
