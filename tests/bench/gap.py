#!/usr/bin/env python3
"""The gap between the first token and the second, which comes from the other worker.

Each round starts a cluster, all of whose prompts are computed on the prefill worker, and asks one
answer after the other of it: first with the decode worker idle, then while streams run on it.
Prints the gap, the median gap of the same answer's later tokens, and their ratio; pooled over the
rounds, since few answers have no 99th percentile. With --against DIR the programs there are
measured in the same rounds, in turn.

On a machine that others use the client and the threads that carry messages wait for CPUs longer than
a step takes. --ahead puts them and the cluster before all others, as if nobody else was there: a
real-time priority for the client and for all threads that do not compute, and the greatest weight for
the cluster's scheduling group. It needs root.
"""

import argparse
import json
import os
import statistics
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import cluster as clusters  # noqa: E402
import prompts  # noqa: E402
from client import Background  # noqa: E402
from runs import percentile  # noqa: E402
from streams import Seeds  # noqa: E402

STATES = ("idle", "busy")


def sample(answer):
    """Of one answer: its gap after the first token, and the usual one."""
    if not answer.ok:
        raise SystemExit(f"gap: {answer.why()}")
    gaps = answer.gaps()
    if len(gaps) < 2:
        raise SystemExit(f"gap: an answer of {len(answer.times)} tokens")
    return {"gap_ms": gaps[0] * 1e3, "token_ms": statistics.median(gaps[1:]) * 1e3,
            "hand_over_ms": (answer.trace or {}).get("transfer_visible_ms", 0.0)}


def go_ahead(cluster):
    """The cluster and this process before all other programs; compute threads only by weight."""
    with open(f"/proc/{cluster.pid}/autogroup", "w") as file:
        file.write("-15")
    threads = [0]
    for process in cluster.processes():
        folder = f"/proc/{process['pid']}/task"
        for thread in os.listdir(folder):
            with open(f"{folder}/{thread}/comm") as file:
                if not file.read().startswith(("compute-", "prefault")):
                    threads.append(int(thread))
    for thread in threads:
        os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(20))


def ask(cluster, seeds, arguments):
    return sample(cluster.client().completion(
        prompts.ids(arguments.prompt, seeds.take()), max_tokens=arguments.tokens, ignore_eos=True))


def streams_on(cluster, seeds, count):
    """Keeps `count` streams running, each a short prompt and a long answer; returns what stops them."""
    body = {"max_tokens": 1000, "ignore_eos": True, "temperature": 0, "stream": True,
            "return_token_ids": True}
    stop = threading.Event()
    started = threading.Semaphore(0)

    class Stopped(Exception):
        pass

    def on_token(answer):
        if len(answer.times) == 8:
            started.release()
        if stop.is_set():
            raise Stopped

    def stream():
        while not stop.is_set():
            try:
                cluster.client().send("/v1/completions",
                                      {**body, "prompt": prompts.ids(40, seeds.take())}, on_token)
            except Stopped:
                pass

    running = [Background(stream) for _ in range(count)]

    def end():
        stop.set()
        for each in running:
            each.result()

    for _ in running:
        if not started.acquire(timeout=60):
            end()
            raise SystemExit("gap: the streams do not start")
    return end


def measure(arguments, seeds, programs):
    clusters.BIN = programs
    sets = ["router.local_prefill=never", *arguments.set]
    out = {}
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # what the cluster inherits
    with clusters.Cluster(file=arguments.file, sets=sets) as cluster:
        if arguments.ahead:
            go_ahead(cluster)
        for _ in range(3):
            ask(cluster, seeds, arguments)
        out["idle"] = [ask(cluster, seeds, arguments) for _ in range(arguments.requests)]
        end = streams_on(cluster, seeds, arguments.streams)
        try:
            out["busy"] = [ask(cluster, seeds, arguments) for _ in range(arguments.requests)]
        finally:
            end()
    return out


def figures(samples):
    ratios = [each["gap_ms"] / each["token_ms"] for each in samples]
    return {"answers": len(samples),
            "gap_p50_ms": statistics.median(each["gap_ms"] for each in samples),
            "token_ms": statistics.median(each["token_ms"] for each in samples),
            "hand_over_ms": statistics.median(each["hand_over_ms"] for each in samples),
            "ratio_p50": statistics.median(ratios), "ratio_p99": percentile(ratios, 0.99)}


def table(results):
    """results: {programs: {state: [samples of a round, ...]}}"""
    lines = ["| | answers | gap, ms | usual gap, ms | hand-over after the prefill, ms "
             "| ratio, median | ratio, p99 |", "|---" * 7 + "|"]
    for programs, states in results.items():
        for state, rounds in states.items():
            of_rounds = [figures(samples)["ratio_p50"] for samples in rounds]
            all_of = figures([each for samples in rounds for each in samples])
            title = state if len(results) == 1 else f"{state}, {programs}"
            lines.append(
                f"| {title} | {all_of['answers']} | {all_of['gap_p50_ms']:.2f} "
                f"| {all_of['token_ms']:.2f} | {all_of['hand_over_ms']:.2f} "
                f"| {all_of['ratio_p50']:.2f} ({min(of_rounds):.2f}-{max(of_rounds):.2f}) "
                f"| {all_of['ratio_p99']:.2f} |")
    return "\n".join(lines)


def parse(argv):
    parser = argparse.ArgumentParser(prog="gap", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=40, help="a round and state")
    parser.add_argument("--streams", type=int, default=4, help="of the busy decode worker")
    parser.add_argument("--prompt", type=int, default=300, help="tokens")
    parser.add_argument("--tokens", type=int, default=40, help="of an answer")
    parser.add_argument("--against", help="a folder with other programs, measured in turn")
    parser.add_argument("--ahead", action="store_true", help="of others on a busy machine")
    parser.add_argument("--file", default="deploy/local.yaml")
    parser.add_argument("--set", action="append", default=[], help="as of baton up")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    for name, least in (("rounds", 1), ("requests", 1), ("streams", 1), ("prompt", 2),
                        ("tokens", 3)):
        if getattr(arguments, name) < least:
            parser.error(f"--{name} is at least {least}")
    if arguments.against and not os.access(os.path.join(arguments.against, "baton"), os.X_OK):
        parser.error(f"--against: {arguments.against} has no program baton")
    if arguments.ahead and os.geteuid() != 0:
        parser.error("--ahead needs root")
    return arguments


def main(argv=None):
    arguments = parse(argv)
    seeds = Seeds()
    programs = [clusters.BIN, *([arguments.against] if arguments.against else [])]
    results = {each: {state: [] for state in STATES} for each in programs}
    for round_number in range(arguments.rounds):
        for each in programs:
            for state, samples in measure(arguments, seeds, each).items():
                results[each][state].append(samples)
                print(f"round {round_number + 1}, {each}, {state}: " + ", ".join(
                    f"{key} {value:.2f}" for key, value in figures(samples).items()),
                    file=sys.stderr, flush=True)
    print(json.dumps(results) if arguments.json else table(results))


if __name__ == "__main__":
    main()
