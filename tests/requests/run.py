#!/usr/bin/env python3
"""run.py [--count N] [--seed S] [--only I]: generated requests against clusters of this tree.

Each request is made from the seed and its number alone. After each the connection must be in the
state that the answer says; between them a completion that nothing may change is asked for again; at
the end the same processes run, without a block, a descriptor or memory more than they need.
"""

import argparse
import faulthandler
import json
import os
import pathlib
import random
import signal
import sys
import threading
import time
from collections import Counter

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "e2e")]

import cases  # noqa: E402
import wire  # noqa: E402
from cluster import Cluster, alive  # noqa: E402
from judge import check_answer  # noqa: E402

DEADLINE = 30.0  # seconds for one answer
QUIET = 0.2  # seconds after which nothing more is expected of input that may be incomplete
LANES = 8
CONTROL_EVERY = 100
MOST_FAILURES = 20
TINY = ROOT / "tests" / "data" / "models" / "tiny_f32.gguf"
PROBE = b"GET /livez HTTP/1.1\r\nHost: a\r\nx-request-id: probe\r\n\r\n"
CONTROL = {"prompt": "The control completion", "max_tokens": 24, "temperature": 0, "ignore_eos": True}


def perform(case, connect):
    """Sends a case and judges everything that comes back; returns the statuses. Raises Wrong."""
    connection = connect()
    try:
        sent = True
        for i, piece in enumerate(case.pieces):
            if i and case.pause:
                time.sleep(case.pause)
            sent = sent and connection.send(piece)
        deadline = time.monotonic() + DEADLINE
        if case.leave is not None:
            leave_early(connection, case.leave)
            return []
        if case.expect is None:
            return read_any(connection, case.pieces[0].startswith(b"HEAD "))
        statuses = []
        for expect in case.expect:
            answer = connection.answer(expect.method, deadline)
            if answer is None:
                if connection.reset and "refused" in case.tags:
                    return statuses  # the refusal was overtaken by the reset of unread input
                raise wire.Wrong(f"the connection ended before answer {len(statuses) + 1}")
            check_answer(answer, expect)
            statuses.append(answer.status)
            if answer.closes:
                connection.expect_end(deadline)
                return statuses
        still_speaks(connection, deadline)
        return statuses
    except wire.Silent:
        raise wire.Wrong(f"nothing for {DEADLINE} s") from None
    finally:
        connection.close(case.reset)


def leave_early(connection, after):
    """Some bytes of the answer, if there are so many."""
    try:
        connection.wait_bytes(after, time.monotonic() + QUIET)
    except wire.Silent:
        pass


def still_speaks(connection, deadline):
    """What the answer left of the connection: the next request is understood from its first byte."""
    connection.send(PROBE)
    answer = connection.answer("GET", deadline)
    if answer is None or answer.status != 200 or answer.fields.get("x-request-id") != "probe":
        raise wire.Wrong(f"a connection that goes on answers {answer!r} to a probe")


def read_any(connection, head):
    """Well-formed answers, however many; then the end."""
    method = "HEAD" if head else "ANY"
    statuses, ended = [], False
    while True:
        deadline = time.monotonic() + (DEADLINE if ended else QUIET)
        try:
            connection.wait_bytes(1, deadline)
        except wire.Silent:
            if ended:
                raise
            ended = True
            if connection.tls:
                return statuses
            connection.end_sending()
            continue
        answer = connection.answer(method, time.monotonic() + DEADLINE)
        if answer is None:
            return statuses
        check_answer(answer, cases.Expect(method, statuses={200, 204, 400, 404, 405, 408, 413, 414, 415,
                                                           417, 431, 501, 505}))
        statuses.append(answer.status)
        if answer.closes:
            connection.expect_end(time.monotonic() + DEADLINE)
            return statuses


class Run:
    """Cases on some lanes at once, and what became of them."""

    def __init__(self, seed, numbers, cluster, title):
        self.seed, self.cluster, self.title = seed, cluster, title
        self._numbers = iter(numbers)
        self._lock = threading.Lock()
        self.statuses, self.kinds, self.failures = Counter(), Counter(), []
        self.slowest = (0.0, -1)
        self.controls = 0
        self._client = cluster.client(timeout=60)
        parts = cluster.url.removeprefix("http://").split(":")
        self.address = (parts[0], int(parts[1]))
        self.control_text = self.control()

    def connect(self):
        return wire.Connection(self.address)

    def control(self):
        answer = self._client.send("/v1/completions", CONTROL)
        if not answer.ok:
            raise wire.Wrong(f"the control completion: {answer.why()}")
        return answer.text

    def check_control(self):
        text = self.control()
        self.controls += 1
        if text != self.control_text:
            raise wire.Wrong(f"the control completion is {text!r}, was {self.control_text!r}")

    def _next(self):
        with self._lock:
            return None if len(self.failures) >= MOST_FAILURES else next(self._numbers, None)

    def _lane(self):
        while (number := self._next()) is not None:
            case = cases.make(self.seed, number)
            begin = time.monotonic()
            try:
                statuses = perform(case, self.connect)
                if number % CONTROL_EVERY == 0:
                    self.check_control()
            except (wire.Wrong, OSError, LookupError, TypeError) as error:
                self._fail(number, case, error)
                continue
            took = time.monotonic() - begin
            with self._lock:
                self.kinds[case.kind.split()[0]] += 1
                self.statuses.update(statuses)
                self.slowest = max(self.slowest, (took, number))

    def _fail(self, number, case, error):
        data = b"".join(case.pieces)
        shown = data if len(data) <= 2000 else data[:1000] + b" ... " + data[-200:]
        with self._lock:
            self.failures.append(number)
            print(f"FAILED request {number} ({case.kind}), {self.title}\n"
                  f"  {type(error).__name__}: {error}\n  sent: {shown!r}\n"
                  f"  again: tests/requests/run.py --seed {self.seed} --only {number}", flush=True)

    def work(self, lanes=LANES):
        threads = [threading.Thread(target=self._lane, name=f"lane-{i}") for i in range(lanes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def report(self, seconds):
        done = sum(self.kinds.values())
        statuses = " ".join(f"{status}:{count}" for status, count in sorted(self.statuses.items()))
        print(f"{self.title}: {done} requests in {seconds:.0f} s, answers {statuses}; "
              f"{self.controls} control completions; slowest {self.slowest[0]:.2f} s "
              f"(request {self.slowest[1]})", flush=True)


def resources(cluster):
    """Of each process: (kB of memory, descriptors, threads)."""
    out, memory = {}, cluster.pss_kib()
    for process in cluster.processes():
        folder = f"/proc/{process['pid']}"
        out[process["name"]] = (memory[process["name"]], len(os.listdir(folder + "/fd")),
                                len(os.listdir(folder + "/task")))
    return out


def check_end(run, pids, before):
    """What must hold when all is over."""
    cluster, problems = run.cluster, []
    if {p["name"]: p["pid"] for p in cluster.processes()} != pids or not all(map(alive, pids.values())):
        problems.append("a process has died")
    run.check_control()
    cluster.wait_blocks_free()
    after = resources(cluster)
    for name, (memory, descriptors, threads) in after.items():
        was = before[name]
        print(f"  {name}: {was[0] / 1024:.1f} -> {memory / 1024:.1f} MiB, "
              f"{was[1]} -> {descriptors} descriptors, {was[2]} -> {threads} threads")
        if memory > was[0] * 1.1 + 16 * 1024:
            problems.append(f"{name} grew from {was[0]} to {memory} KiB")
        if descriptors > was[1] + 4 or threads > was[2]:
            problems.append(f"{name} has {descriptors} descriptors and {threads} threads, had {was[1:]}")
    busy = sum(run.statuses[status] for status in (429, 503))
    if busy > max(20, sum(run.statuses.values()) // 100):
        problems.append(f"{busy} answers of 429 or 503")
    errors = [line for line in cluster.log_text().splitlines() if " E baton-" in line or " F baton-" in line]
    if errors:
        problems.append("errors in the log: " + "; ".join(errors[:5]))
    return problems


def run_numbers(seed, numbers, title, settings):
    """True when nothing was wrong with these numbers, on a cluster of their own."""
    numbers = list(numbers)
    with Cluster(sets=settings, pool=False) as cluster:
        pids = {p["name"]: p["pid"] for p in cluster.processes()}
        begin = time.monotonic()
        # What is allocated once, at the most that is needed at a time, is there after the first part.
        warm = len(numbers) // 3 if len(numbers) > 100 else 0
        run = Run(seed, numbers[:warm], cluster, title)
        run.work()
        before = resources(cluster)
        run._numbers = iter(numbers[warm:])
        run.work(LANES if len(numbers) > 1 else 1)
        run.report(time.monotonic() - begin)
        problems = check_end(run, pids, before)
    for problem in problems:
        print(f"FAILED {title}: {problem}")
    return not problems and not run.failures


SETTINGS = ["prefill.*.kv_cache=1000blocks", "decode.*.kv_cache=1000blocks"]


def generated(seed, count, only=None):
    """All of it; True when nothing was wrong."""
    print(f"generated requests: seed {seed}, {count} requests", flush=True)
    numbers = range(count) if only is None else [only]
    return run_numbers(seed, numbers, "tiny model", [f"model.path={TINY}", *SETTINGS])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=50_000, help="requests (default: 50000)")
    parser.add_argument("--seed", type=int, help="default: another each time, and printed")
    parser.add_argument("--only", type=int, metavar="I", help="request I alone")
    options = parser.parse_args()
    faulthandler.register(signal.SIGUSR1)  # where its lanes are
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the cluster is stopped, too
    os.environ.setdefault("BATON_BIN", str(ROOT / "build" / "release" / "bin"))
    seed = random.randrange(1 << 31) if options.seed is None else options.seed
    return 0 if generated(seed, options.count, options.only) else 1


if __name__ == "__main__":
    sys.exit(main())
