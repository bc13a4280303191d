#!/usr/bin/env python3
"""soak.py [--seconds N] [--seed N] [--config FILE] [--faults SEED]: a cluster under load whose workers
are killed, stopped, terminated and whose clients leave, again and again.

What must hold: every answer that ends has the tokens of the same request without trouble; one that
fails says why and at most 1 % do; no client hangs; in the end no block is held, no process and no
file is left, and the router's memory has not grown. Prints what happened, and its seed, which
repeats the order of requests and faults (not their exact times).

--faults turns the fault points on of programs that were built with -DBATON_FAULTS=ON (preset
"faults"): messages and DATA are lost, late, doubled, cut and damaged, and workers stop and kill
themselves in the middle of a hand-over. Each life of a worker logs what repeats its faults.
"""

import argparse
import collections
import contextlib
import json
import os
import random
import re
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import prompts
from client import Background, in_parallel
from cluster import Cluster, descendants, wait_until

CLIENTS = 8
DISTINCT = 24
PAUSE_S = 3.0  # between faults
PLAN_PAUSE_S = 9.0  # the same beside a fault plan, which ends workers by itself
LEAVES = 0.08  # share of clients that go away in the middle
HANG_S = 60.0
# 8 clients with up to 300 + 60 tokens need 96 blocks of 32; a fifth more, so that all are reused.
BLOCKS = 120


def distinct_requests(seed):
    dice = random.Random(seed)
    out = []
    for i in range(DISTINCT):
        body = {"prompt": prompts.ids(dice.randrange(3, 300), seed=seed + i),
                "max_tokens": dice.randrange(8, 60), "temperature": 0, "ignore_eos": i % 3 > 0,
                "return_token_ids": True}
        if i % 2:
            body |= {"temperature": 0.8, "seed": 17 * i, "top_k": 50, "frequency_penalty": 0.3}
        if i % 5 == 0:
            body |= {"min_tokens": 6, "repetition_penalty": 1.1}
        out.append(body)
    return out


def state_of(pid):
    """The letter of a process's state, T when it is stopped; empty when there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


class Soak:
    def __init__(self, cluster, seed, expected=None):
        self.cluster, self.seed = cluster, seed
        self.by_plan = expected is not None  # workers also trouble themselves
        self.bodies = distinct_requests(seed)
        self.expected = expected or []
        self.count = collections.Counter()
        self.failures = collections.Counter()
        self.wrong = []
        self.hung = []
        self.events = []
        self.pss = {}  # MiB of the router, which lives through all of it
        self.slowest = 0.0
        self._lock = threading.Lock()
        self._next = 0
        self._began = time.monotonic()

    # ---- load

    def one(self, number):
        dice = random.Random(f"{self.seed}/{number}")
        index = dice.randrange(DISTINCT)
        body = {**self.bodies[index], "stream": dice.random() < 0.8}
        leaves = body["stream"] and dice.random() < LEAVES
        leave_at = dice.randrange(1, body["max_tokens"])

        def on_token(answer):
            if leaves and len(answer.ids) >= leave_at:
                raise ConnectionError("the client leaves")
        answer = self.cluster.client(timeout=HANG_S).send("/v1/completions", body, on_token)
        with self._lock:
            self.judge(number, index, answer, leaves)

    def judge(self, number, index, answer, leaves):
        took = answer.ended - answer.sent
        self.slowest = max(self.slowest, took)
        self.count["requests"] += 1
        want = self.expected[index]
        what = f"request {number} (prompt {index})"
        if answer.ids != want.ids[:len(answer.ids)]:
            self.wrong.append(f"{what}: other tokens: {answer.ids} instead of {want.ids}")
        if answer.ok:
            self.count["completed"] += 1
            if answer.ids != want.ids or answer.finish != want.finish or answer.text != want.text:
                self.wrong.append(f"{what}: another end: {answer.why()}")
            if answer.usage["completion_tokens"] != len(want.ids):
                self.wrong.append(f"{what}: usage {answer.usage}")
        elif leaves and "the client leaves" in answer.broken:
            self.count["left"] += 1
        elif answer.error:
            self.count["failed"] += 1
            self.failures[f"{answer.status} {answer.error.get('code') or answer.error.get('type')}: "
                          f"{answer.error.get('message', '')[:90]}"] += 1
        elif "timed out" in answer.broken:
            self.hung.append(f"{what}: {answer.why()} after {took:.1f} s")
        else:
            self.wrong.append(f"{what}: no answer and no reason: {answer.why()}")

    def client_loop(self, until):
        while time.monotonic() < until:
            with self._lock:
                number = self._next
                self._next += 1
            self.one(number)

    # ---- faults

    def workers(self):
        return self.cluster.processes("prefill") + self.cluster.processes("decode")

    def note(self, text):
        self.events.append(f"{time.monotonic() - self._began:6.1f} s  {text}")

    def fault(self, dice):
        worker = dice.choice(self.workers())
        name, pid = worker["name"], worker["pid"]
        kind = dice.choice(["kill", "kill", "stop", "terminate"])
        try:
            if kind == "kill":
                os.kill(pid, signal.SIGKILL)
            elif kind == "terminate":
                os.kill(pid, signal.SIGTERM)
            else:
                pause = dice.uniform(0.1, 3.0)
                os.kill(pid, signal.SIGSTOP)
                threading.Timer(pause, self.go_on, [pid]).start()
                kind = f"stop for {pause:.1f} s:"
        except ProcessLookupError:
            return  # it is between two lives
        self.count[kind.split()[0]] += 1
        self.note(f"{kind} {name}")

    @staticmethod
    def go_on(pid):
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def run(self, seconds):
        self.expected = self.expected or answers_of(self.cluster, self.bodies)
        in_parallel([lambda body=body: self.cluster.client().send("/v1/completions", body)
                     for body in self.bodies[:CLIENTS] * 2], CLIENTS)
        self._began = time.monotonic()
        until = self._began + seconds
        clients = [Background(lambda: self.client_loop(until)) for _ in range(CLIENTS)]
        pause = PLAN_PAUSE_S if self.by_plan else PAUSE_S
        dice = random.Random(self.seed)
        while time.monotonic() < until - pause:
            time.sleep(pause)
            self.fault(dice)
            if "half" not in self.pss and time.monotonic() > until - seconds / 2:
                self.pss["half"] = self.router_mib()
        for client in clients:
            client.result(timeout=2 * HANG_S)
        self.settle_in_the_end()
        self.pss["end"] = self.router_mib()

    def router_mib(self):
        return {name: kib / 1024 for name, kib in self.cluster.pss_kib("router").items()}

    def settle_in_the_end(self):
        # A fault plan does not rest meanwhile.
        for left in reversed(range(4 if self.by_plan else 1)):
            try:
                return self.settle()
            except (AssertionError, OSError) as error:
                if left == 0:
                    raise
                self.note(f"did not settle: {error}")

    def settle(self):
        """All workers are back, nothing is held, and the cluster serves as before."""
        def serving():
            status = json.loads(self.cluster.client().request("GET", "/baton/status")[2])
            names = {w["name"] for w in status["workers"] if w["state"] == "ready"}
            return {w["name"] for w in self.workers()} <= names
        wait_until(serving, "all workers ready again", 30)
        self.cluster.wait_blocks_free(timeout=30)
        for index, body in enumerate(self.bodies):
            answer = self.cluster.client(timeout=HANG_S).send("/v1/completions", body)
            if self.by_plan and answer.error:
                self.failures[f"after the trouble: {answer.why()}"] += 1
            elif not answer.ok or answer.ids != self.expected[index].ids:
                self.wrong.append(f"after the trouble, prompt {index}: {answer.why()}")
        self.cluster.wait_blocks_free(timeout=30)

    def report(self):
        lines = [*self.events, f"seed {self.seed}: {dict(self.count)}, slowest answer "
                 f"{self.slowest:.1f} s"]
        lines += [f"  Pss of {name}: {mib:.1f} MiB at the {when}"
                  for when, found in self.pss.items() for name, mib in found.items()]
        lines += [f"  failed {count} x {why}" for why, count in self.failures.most_common()]
        lines += [f"  WRONG {text}" for text in self.wrong[:10]]
        lines += [f"  HUNG {text}" for text in self.hung[:10]]
        return "\n".join(lines)

    def check(self):
        if self.wrong or self.hung:
            raise AssertionError(f"{len(self.wrong)} wrong, {len(self.hung)} hung")
        allowed = max(1, self.count["requests"] // 100)
        if self.count["failed"] > allowed:
            raise AssertionError(f"{self.count['failed']} of {self.count['requests']} requests "
                                 f"failed; {allowed} may")
        for name, mib in self.pss.get("half", {}).items():
            # The router remembers its last 1,000 requests: at most 6 MiB more.
            if self.pss["end"][name] > 1.05 * mib + 6:
                raise AssertionError(f"{name} has grown from {mib:.1f} to "
                                     f"{self.pss['end'][name]:.1f} MiB")
        if not self.count["completed"]:
            raise AssertionError("no request completed")


def answers_of(cluster, bodies):
    answers = [cluster.client().send("/v1/completions", body) for body in bodies]
    for answer in answers:
        if not answer.ok:
            raise AssertionError(f"without any trouble: {answer.why()}")
    return answers


class GoesOn:
    """Lets workers go on that the fault plan has stopped."""

    def __init__(self, pid, seed):
        self._pid, self._dice = pid, random.Random(seed)  # of baton up
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _run(self):
        due = {}
        while not self._over.wait(0.05):
            for pid in descendants(self._pid):
                if state_of(pid) == "T":
                    due.setdefault(pid, time.monotonic() + self._dice.uniform(0.1, 3.0))
            for pid in [pid for pid, at in due.items() if time.monotonic() > at]:
                Soak.go_on(pid)
                del due[pid]


def soak(seconds, seed, file="deploy/local-2p2d.yaml", faults=None):
    sets = [f"prefill.*.kv_cache={BLOCKS}blocks", f"decode.*.kv_cache={BLOCKS}blocks"]
    expected = None
    if faults is not None:
        with Cluster(file, sets=sets, pool=False) as cluster:
            expected = answers_of(cluster, distinct_requests(seed))
        sets.append(f"test.faults={faults}")
    with contextlib.ExitStack() as after, Cluster(file, sets=sets, pool=False) as cluster:
        if faults is not None:
            after.enter_context(GoesOn(cluster.pid, seed))  # until the cluster has stopped
        run = Soak(cluster, seed, expected)
        try:
            run.run(seconds)
        finally:
            print(run.report())
            if faults is not None:
                print(faults_of(cluster.log_text()))
        run.check()
        return run


def faults_of(log):
    """How often each fault happened, by the workers' logs."""
    count = collections.Counter(re.findall(r"fault point=(\S+) kind=(\S+)", log))
    return "faults: " + ", ".join(f"{point} {kind} {n}" for (point, kind), n in sorted(count.items()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--config", default="deploy/local-2p2d.yaml")
    parser.add_argument("--faults", metavar="SEED")
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    soak(options.seconds, random.randrange(1 << 31) if options.seed is None else options.seed,
         options.config, options.faults)
