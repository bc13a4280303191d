#!/usr/bin/env python3
"""What a hand-over adds to the prefill that it hides behind.

Each round starts a cluster of one prefill and one decode worker with a CPU each, for each place of
the prefill worker's transfer thread, and asks prompts in pairs: one that is handed over, and one
that ends with its first token, which needs no decode worker. Their order turns from pair to pair.

  free  compute on the first CPU, all other threads where there is time: on the second, as a rule
  one   all threads of the prefill worker on the first CPU, all others on the second

Prompts have 2,000 tokens, of which so many are computed (--computed): the KV of the others is in the
prefill worker's cache, but not in the decode worker's, so that as many bytes cross while less is
computed. That is how a difference of a few milliseconds is seen, and how a layer gets to compute only
a few times as long as it transfers.

Prints, as medians over the rounds with the least and greatest: the time of the prefill without and
with a hand-over, what it adds, the CPU time of the transfer thread for one (what it uses beside the
other prompt is subtracted), and what is added over that time; then how much of the transfer is hidden.
"""

import argparse
import collections
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import cluster as clusters  # noqa: E402
import prompts  # noqa: E402
from runs import BenchError, cell, spread  # noqa: E402
from streams import Seeds  # noqa: E402

PLACES = ("free", "one")
BLOCK = 32  # tokens; what is cached of a prompt is whole blocks
TOKENS = 8  # of an answer that is handed over: its last one finds the times of the transfer told
SETTLE_S = 0.01  # after an answer, until every thread sleeps
START_S = 60
WARM_PAIRS = 2


def cpu_ms(pid):
    """CPU time of a worker's threads so far: those that compute, the transfer thread, all."""
    out = collections.Counter()
    folder = f"/proc/{pid}/task"
    for thread in os.listdir(folder):
        try:
            with open(f"{folder}/{thread}/comm") as file:
                name = file.read().strip()
            with open(f"{folder}/{thread}/schedstat") as file:
                used = int(file.read().split()[0]) / 1e6
        except OSError:
            continue  # it has ended
        out["all"] += used
        if name == "transfer" or name.startswith("compute-"):
            out[name.split("-")[0]] += used
    return out


def pin(pid, cpu):
    """All threads that the process has."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), {cpu})


def wait_prefaulted(pids):
    """A pool is touched in the background after the start, by a thread that then ends."""
    def busy(pid):
        for thread in os.listdir(f"/proc/{pid}/task"):
            try:
                with open(f"/proc/{pid}/task/{thread}/comm") as file:
                    if file.read().strip() == "prefault":
                        return True
            except OSError:
                pass
        return False
    clusters.wait_until(lambda: not any(busy(pid) for pid in pids), "the pools are touched", START_S)


class Asked:
    """Prompts to one cluster, each with what the prefill worker used for it."""

    def __init__(self, cluster, seeds, tokens, computed):
        self._client, self._pid = cluster.client(), cluster.process("p0")["pid"]
        self._seeds, self._computed, self._tokens = seeds, computed, tokens
        self._prefix = prompts.ids(tokens - computed, seeds.take()) if computed < tokens else []

    def fill_cache(self):
        if self._prefix:
            self._ask(1)

    def _ask(self, max_tokens):
        prompt = self._prefix + prompts.ids(self._computed, self._seeds.take())
        answer = self._client.completion(prompt, max_tokens=max_tokens, ignore_eos=True)
        if not answer.ok or not answer.trace:
            raise BenchError(answer.why())
        return answer.trace

    def sample(self, handed_over):
        before = cpu_ms(self._pid)
        trace = self._ask(TOKENS if handed_over else 1)
        time.sleep(SETTLE_S)
        used = cpu_ms(self._pid) - before
        if trace["prompt_tokens_computed"] != self._computed:
            raise BenchError(f"{trace['prompt_tokens_computed']} tokens were computed, not "
                             f"{self._computed}")
        if handed_over and not trace["transfer_visible_ms"] > 0:
            raise BenchError("an answer does not tell the times of its transfer")
        return {"prefill_ms": trace["prefill_ms"], "visible_ms": trace["transfer_visible_ms"],
                "bytes": trace["transfer_bytes"],
                **{f"{name}_cpu_ms": used[name] for name in ("transfer", "compute", "all")}}

    def pairs(self, seconds):
        """(with, without) of each pair; two at least, so that both orders count alike."""
        out, end = [], time.monotonic() + seconds
        while len(out) < 2 or len(out) % 2 or time.monotonic() < end:
            with_first = len(out) % 2 == 0
            first, second = self.sample(with_first), self.sample(not with_first)
            out.append((first, second) if with_first else (second, first))
        return out


def figures(pairs, transfer_ms, hidden):
    """Of the pairs of one round; transfer_ms and hidden as the worker's metrics say."""
    def added(key):
        return statistics.median(one[key] - other[key] for one, other in pairs)
    sender = added("transfer_cpu_ms")
    if sender <= 0:
        raise BenchError("the transfer thread has used no CPU time")
    without = statistics.median(other["prefill_ms"] for _, other in pairs)
    visible = statistics.median(one["visible_ms"] for one, _ in pairs)
    return {
        "pairs": len(pairs),
        "without_ms": without,
        "with_ms": statistics.median(one["prefill_ms"] for one, _ in pairs),
        "ratio": statistics.median(one["prefill_ms"] / other["prefill_ms"] for one, other in pairs),
        "added_ms": added("prefill_ms"),
        "sender_ms": sender,
        "added_per_sender": added("prefill_ms") / sender,
        "compute_added_ms": added("compute_cpu_ms"),
        "cpu_added_ms": added("all_cpu_ms"),
        "cpu_per_sender": added("all_cpu_ms") / sender,
        "compute_per_transfer": without / sender,
        "transfer_ms": transfer_ms,
        "hidden": hidden,
        "visible_ms": visible,
        "hidden_of_sender": 1 - visible / sender,
        "mb": statistics.median(one["bytes"] for one, _ in pairs) / 1e6,
    }


class TransferMetrics:
    """What the prefill worker's histograms say of the hand-overs of a time."""

    def __init__(self, cluster):
        self._cluster = cluster
        self._before = self._read()

    def _read(self):
        scrape = self._cluster.scrape(role="prefill")
        return {name: scrape.sum(f"baton_kv_transfer_{name}")
                for name in ("seconds_sum", "seconds_count", "hidden_ratio_sum",
                             "hidden_ratio_count")}

    def means(self):
        """Milliseconds from first byte to acknowledged commit, and the share hidden."""
        now = self._read()
        part = {name: now[name] - self._before[name] for name in now}
        if part["seconds_count"] < 1 or part["hidden_ratio_count"] < 1:
            raise BenchError("the prefill worker has counted no hand-over")
        return (part["seconds_sum"] / part["seconds_count"] * 1e3,
                part["hidden_ratio_sum"] / part["hidden_ratio_count"])


def settings_of(cpus):
    # The decode worker shall find nothing in a cache: every hand-over sends all of the prompt.
    return [f"prefill.*.cpus={cpus[0]}", f"decode.*.cpus={cpus[1]}", "workers.lend_cpus=off",
            "router.local_prefill=never", "decode.*.prefix_cache=false"]


def place(cluster, where, cpus):
    """This client, too, keeps off the CPU that computes."""
    os.sched_setaffinity(0, {cpus[1]})
    if where == "one":
        for process in cluster.processes():
            pin(process["pid"], cpus[0] if process["role"] == "prefill" else cpus[1])


def measure(where, arguments, seeds, cpus):
    """{tokens computed: figures} of one cluster."""
    out, allowed = {}, os.sched_getaffinity(0)
    with clusters.Cluster(file=arguments.file,
                          sets=[*settings_of(cpus), *arguments.set]) as cluster:
        try:
            wait_prefaulted([process["pid"] for role in ("prefill", "decode")
                             for process in cluster.processes(role)])
            place(cluster, where, cpus)
            for computed in arguments.computed:
                asked = Asked(cluster, seeds, arguments.prompt, computed)
                asked.fill_cache()
                for number in range(WARM_PAIRS):
                    asked.sample(number % 2 == 0)
                metrics = TransferMetrics(cluster)
                pairs = asked.pairs(arguments.seconds)
                out[computed] = figures(pairs, *metrics.means())
        finally:
            os.sched_setaffinity(0, allowed)
    return out


def table(results):
    """results: {place: {tokens computed: [figures of a round, ...]}}"""
    first = ["| transfer thread | tokens computed | pairs | prefill, ms | with hand-over, ms | ratio "
             "| added, ms | transfer thread, CPU ms | added / that | all CPU added / that |",
             "|---" * 10 + "|"]
    second = ["| transfer thread | tokens computed | MB | compute / transfer thread "
              "| first byte to commit, ms | of it hidden | after the prefill, ms "
              "| transfer thread's time hidden |", "|---" * 8 + "|"]
    for where, rows in results.items():
        for computed, rounds in rows.items():
            def of(key, digits, rounds=rounds):
                return cell(spread([each[key] for each in rounds]), digits)
            title = f"| {where} | {computed:,} |"
            first.append(" ".join([
                title, str(sum(each["pairs"] for each in rounds)), "|",
                " | ".join([of("without_ms", 1), of("with_ms", 1), of("ratio", 3),
                            of("added_ms", 2), of("sender_ms", 2), of("added_per_sender", 2),
                            of("cpu_per_sender", 2)]), "|"]))
            second.append(" ".join([
                title, " | ".join([of("mb", 1), of("compute_per_transfer", 1), of("transfer_ms", 1),
                                   of("hidden", 3), of("visible_ms", 2),
                                   of("hidden_of_sender", 2)]), "|"]))
    return "\n".join([*first, "", *second])


def parse(argv):
    parser = argparse.ArgumentParser(prog="overlap", description=__doc__.splitlines()[0])
    parser.add_argument("--places", default=",".join(PLACES), help="which, of " + ", ".join(PLACES))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=15, help="of each row, a round")
    parser.add_argument("--prompt", type=int, default=2000, help="tokens")
    parser.add_argument("--computed", default="2000,80,16",
                        help="tokens of the prompt that are not in the prefill worker's cache")
    parser.add_argument("--file", default="deploy/local.yaml", help="with workers p0 and d0")
    parser.add_argument("--set", action="append", default=[], help="as of baton up")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    arguments.places = arguments.places.split(",")
    if not set(arguments.places) <= set(PLACES):
        parser.error("--places: there are " + ", ".join(PLACES))
    if arguments.rounds < 1:
        parser.error("--rounds is at least 1")
    try:
        arguments.computed = [int(each) for each in arguments.computed.split(",")]
    except ValueError:
        parser.error("--computed: numbers, with commas between them")
    for computed in arguments.computed:
        if not 2 <= computed <= arguments.prompt or (arguments.prompt - computed) % BLOCK:
            parser.error(f"--computed {computed}: 2 to {arguments.prompt}, and what is left of the "
                         f"prompt is whole blocks of {BLOCK} tokens")
    return arguments


def main(argv=None):
    arguments = parse(argv)
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        raise SystemExit("overlap: two CPUs are needed, one for each worker")
    seeds = Seeds()
    results = {where: {computed: [] for computed in arguments.computed}
               for where in arguments.places}
    for round_number in range(arguments.rounds):
        for where in arguments.places:
            try:
                rows = measure(where, arguments, seeds, cpus)
            except BenchError as error:
                raise SystemExit(f"overlap: {error}") from error
            for computed, row in rows.items():
                results[where][computed].append(row)
                print(f"round {round_number + 1}, {where}, {computed}: " + ", ".join(
                    f"{key} {value:.3f}" for key, value in row.items()), file=sys.stderr, flush=True)
    print(json.dumps(results) if arguments.json else table(results))


if __name__ == "__main__":
    main()
