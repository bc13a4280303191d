#!/usr/bin/env python3
"""run.py [--count N] [--seed S] [--only I]: generated requests against clusters of this tree.

Each request is made from the seed and its number alone. After each the connection must be in the
state that the answer says; between them a completion that nothing may change is asked for again; at
the end the same processes run, without a block, a descriptor or memory more than they need.
"""

import argparse
import faulthandler
import functools
import itertools
import json
import os
import pathlib
import random
import re
import signal
import sys
import threading
import time
import urllib.parse
from collections import Counter

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "e2e")]

import cases  # noqa: E402
import framing  # noqa: E402
import wire  # noqa: E402
from framing import Message, Sender  # noqa: E402
from judge import check_answer, check_same  # noqa: E402
from scenes import SCENES, running, same_processes, scene_of  # noqa: E402

DEADLINE = 30.0  # seconds for one answer
QUIET = 0.2  # seconds after which nothing more is expected of input that may be incomplete
LANES = 8
CONTROL_EVERY = 100
MOST_FAILURES = 20
FEW = 300
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
            if i and "continue" in case.tags:
                connection.expect_continue(time.monotonic() + DEADLINE)
            sent = sent and connection.send(piece)
        deadline = time.monotonic() + DEADLINE
        if case.leave is not None:
            leave_early(connection, case.leave)
            return []
        if case.expect is None:
            return read_any(connection, case.pieces[0].startswith(b"HEAD "))
        statuses, answers = [], []
        for expect in case.expect:
            answer = connection.answer(expect.method, deadline)
            if answer is None:
                if connection.reset and "refused" in case.tags:
                    return statuses  # the refusal was overtaken by the reset of unread input
                raise wire.Wrong(f"the connection ended before answer {len(statuses) + 1}")
            check_answer(answer, expect)
            statuses.append(answer.status)
            answers.append(answer)
            if answer.closes:
                connection.expect_end(deadline)
                return statuses
        if "twins" in case.tags:
            check_same(*answers)
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
        check_answer(answer, cases.Expect(method, statuses={200, 204, 400, 401, 404, 405, 408, 413, 414, 415,
                                                           417, 431, 501, 505}))
        statuses.append(answer.status)
        if answer.closes:
            connection.expect_end(time.monotonic() + DEADLINE)
            return statuses


class Run:
    """Cases on some lanes at once, and what became of them."""

    def __init__(self, seed, stage):
        self.seed, self.scene, self.cluster, self.stage = seed, stage.scene, stage.cluster, stage
        self._lock = threading.Lock()
        self._numbers = iter(())
        self.statuses, self.kinds, self.failures = Counter(), Counter(), []
        self.slowest = (0.0, -1)
        self.controls = 0
        self._counted = itertools.count(1)
        parts = urllib.parse.urlsplit(stage.cluster.url)
        self.address = (parts.hostname, parts.port)
        # Long enough for the prefill worker, so that what its first hand-over takes is there.
        self.completion({**CONTROL, "prompt": list(range(3, 303))})
        self.control_text = self.control()

    def connect(self, bare=False, slow=False):
        return wire.Connection(self.address, None if bare else self.stage.tls, slow)

    def control(self):
        return self.completion(CONTROL)

    def completion(self, body):
        message = Message("POST", cases.C, framing.dumps(body), Sender("control", self.scene))
        connection = self.connect()
        try:
            connection.send(framing.plain(message, None))
            answer = connection.answer("POST", time.monotonic() + DEADLINE)
            check_answer(answer, cases.Expect("POST", "control", {200}, object=cases.OBJECTS[cases.C]))
            return json.loads(answer.body)["choices"][0]["text"]
        finally:
            connection.close()

    def check_control(self):
        text = self.control()
        with self._lock:
            self.controls += 1
        if text != self.control_text:
            raise wire.Wrong(f"the control completion is {text!r}, was {self.control_text!r}")

    def _next(self):
        with self._lock:
            return None if len(self.failures) >= MOST_FAILURES else next(self._numbers, None)

    def _lane(self):
        while (number := self._next()) is not None:
            begin, case = time.monotonic(), None
            try:
                case = cases.make(self.seed, number)
                statuses = perform(case, functools.partial(self.connect, case.bare,
                                                                  "slow" in case.tags))
                if next(self._counted) % CONTROL_EVERY == 0:
                    self.check_control()
            except Exception as error:  # whatever it is, the lane goes on and the run fails
                self._fail(number, case, error)
                continue
            took = time.monotonic() - begin
            with self._lock:
                self.kinds[case.kind.split()[0]] += 1
                self.statuses.update(statuses)
                self.slowest = max(self.slowest, (took, number))

    def _fail(self, number, case, error):
        data = b"".join(case.pieces) if case else b""
        shown = data if len(data) <= 2000 else data[:1000] + b" ... " + data[-200:]
        with self._lock:
            self.failures.append(number)
            print(f"FAILED request {number} ({case and case.kind}), {self.scene.title}\n"
                  f"  {type(error).__name__}: {error}\n  sent: {shown!r}\n"
                  f"  again: tests/requests/run.py --seed {self.seed} --only {number}", flush=True)

    def work(self, numbers):
        self._numbers = iter(numbers)
        lanes = min(LANES, max(1, len(numbers)))
        threads = [threading.Thread(target=self._lane, name=f"lane-{i}") for i in range(lanes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def report(self, seconds):
        done = sum(self.kinds.values())
        statuses = " ".join(f"{status}:{count}" for status, count in sorted(self.statuses.items()))
        print(f"{self.scene.title}: {done} requests in {seconds:.0f} s, answers {statuses}; "
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


def crowd(run):
    """Connections beyond the limit are told so, and those within it go on."""
    limit = run.scene.most_connections
    connections = [run.connect() for _ in range(limit + 5)]
    refused = 0
    try:
        for connection in connections[::-1]:
            if refused == 5:
                break
            answer = connection.answer("GET", time.monotonic() + DEADLINE)
            check_answer(answer, cases.Expect("GET", statuses={503}, closes=True))
            refused += 1
        still_speaks(connections[0], time.monotonic() + DEADLINE)
    finally:
        for connection in connections:
            connection.close()


def drain(run):
    """A cluster that is asked to stop finishes what it streams and takes nothing more."""
    body = {"prompt": "until the end", "max_tokens": 450, "n": 24, "ignore_eos": True, "stream": True}
    streams = [run.connect() for _ in range(4)]
    idle = run.connect()
    still_speaks(idle, time.monotonic() + DEADLINE)
    for stream in streams:
        stream.send(framing.plain(Message("POST", cases.C, framing.dumps(body), Sender("drain", run.scene)), None))
    deadline = time.monotonic() + DEADLINE
    for stream in streams:
        stream.wait_bytes(1, deadline)
    run.cluster.signal()
    for stream in streams:
        answer = stream.answer("POST", deadline)
        check_answer(answer, cases.Expect("POST", "drain", {200}, object=cases.OBJECTS[cases.C]))
        stream.close()
    idle.expect_end(deadline)
    run.cluster.wait_exit()


def check_end(run, pids, before):
    """What must hold when all is over."""
    cluster, problems = run.cluster, []
    if not same_processes(cluster, pids):
        problems.append("a process has died")
    run.check_control()
    cluster.wait_blocks_free()
    after = resources(cluster)
    few = sum(run.kinds.values()) < FEW  # what is taken once and kept is not there yet
    for name, (memory, descriptors, threads) in after.items():
        was = before[name]
        print(f"  {name}: {was[0] / 1024:.1f} -> {memory / 1024:.1f} MiB, "
              f"{was[1]} -> {descriptors} descriptors, {was[2]} -> {threads} threads")
        if few:
            continue
        if memory > was[0] * 1.1 + run.scene.slack_mib * 1024:
            problems.append(f"{name} grew from {was[0]} to {memory} KiB")
        if descriptors > was[1] + 8 or threads > was[2]:
            problems.append(f"{name} has {descriptors} descriptors and {threads} threads, had {was[1:]}")
    busy = sum(run.statuses[status] for status in (429, 503))
    if busy > max(20, sum(run.statuses.values()) // 100):
        problems.append(f"{busy} answers of 429 or 503")
    errors = [line for line in cluster.log_text().splitlines() if re.search(r" [EF] baton", line)]
    if errors:
        problems.append("errors in the log: " + "; ".join(errors[:5]))
    return problems


def run_scene(seed, scene, numbers):
    """True when nothing was wrong with these numbers, on a cluster of their own."""
    with running(scene) as stage:
        cluster = stage.cluster
        pids = {process["name"]: process["pid"] for process in cluster.processes()}
        begin = time.monotonic()
        run = Run(seed, stage)
        # What is allocated once, at the most that is needed at a time, is there after the first part.
        warm = len(numbers) // 3 if len(numbers) >= FEW else 0
        run.work(numbers[:warm])
        before = resources(cluster)
        stage.change_files()
        run.work(numbers[warm:])
        run.report(time.monotonic() - begin)
        problems = check_end(run, pids, before)
        try:
            if scene.most_connections:
                crowd(run)
            if scene is SCENES[0]:
                drain(run)
        except (wire.Wrong, wire.Silent) as error:
            problems.append(f"at its end: {error!r}")
    for problem in problems:
        print(f"FAILED {scene.title}: {problem}", flush=True)
    return not problems and not run.failures


def generated(seed, count, only=None):
    """All of it; True when nothing was wrong."""
    print(f"generated requests: seed {seed}, {count if only is None else 1} requests", flush=True)
    numbers = range(count) if only is None else [only]
    good = True
    for scene in SCENES:
        of_scene = [number for number in numbers if scene_of(number) is scene]
        if of_scene:
            good = run_scene(seed, scene, of_scene) and good
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=50_000, help="requests (default: 50000)")
    parser.add_argument("--seed", type=int, help="default: another each time, and printed")
    parser.add_argument("--coverage", action="store_true",
                        help="say which lines of common/http and router they reach (coverage.py)")
    parser.add_argument("--only", type=int, metavar="I", help="request I alone")
    options = parser.parse_args()
    if options.coverage:
        os.execv(HERE / "coverage.py", ["coverage.py", "--count", str(options.count), "--seed",
                                        str(1 if options.seed is None else options.seed)])
    faulthandler.register(signal.SIGUSR1)  # where its lanes are
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the cluster is stopped, too
    os.environ.setdefault("BATON_BIN", str(ROOT / "build" / "release" / "bin"))
    seed = random.randrange(1 << 31) if options.seed is None else options.seed
    return 0 if generated(seed, options.count, options.only) else 1


if __name__ == "__main__":
    sys.exit(main())
