"""Every way to end a cluster, or a part of it."""

import os
import re
import signal
import threading
import time
import unittest

import prompts
from client import Background, in_parallel
from cluster import FULL, Cluster, alive, descendants, wait_until

DETECTED_S = 2.0  # a killed peer ends or moves its requests within this
# Computing again what a moved stream had, on two busy CPUs, comes on top.
RECOMPUTED_S = 3.0


def bodies(count, tokens, length=60, first_seed=0):
    return [{"prompt": prompts.ids(length, seed=seed), "max_tokens": tokens, "temperature": 0.7,
             "seed": seed, "ignore_eos": True, "return_token_ids": True, "baton_trace": True}
            for seed in range(first_seed, first_seed + count)]


def solo(cluster, asked):
    return [cluster.client().send("/v1/completions", body).ids for body in asked]


class Streams:
    """Streams in the background."""

    def __init__(self, cluster, asked):
        self._begun = threading.Semaphore(0)
        client = cluster.client()

        def on_token(answer):
            if len(answer.ids) == 4:
                self._begun.release()
        self._running = [
            Background(lambda body=body: client.send("/v1/completions", {**body, "stream": True},
                                                     on_token)) for body in asked]

    def wait_begun(self):
        for _ in self._running:
            if not self._begun.acquire(timeout=60):
                raise AssertionError("the streams did not begin")
        return self

    def results(self):
        return [stream.result() for stream in self._running]


class Terminate(unittest.TestCase):
    def test_running_streams_finish(self):
        with Cluster("deploy/local-2p2d.yaml") as cluster:
            streams = Streams(cluster, bodies(8, 120)).wait_begun()
            cluster.stop()
            for answer in streams.results():
                self.assertTrue(answer.ok, answer.why())
                self.assertEqual(len(answer.ids), 120)
        print("8 streams finished after SIGTERM; exit 0, no process, nothing in /dev/shm")

    def test_drain_limit_ends_them_with_an_error(self):
        with Cluster(sets=["router.drain=1s", "workers.drain=1s"]) as cluster:
            streams = Streams(cluster, bodies(2, 6000)).wait_begun()
            asked = time.monotonic()
            cluster.stop(timeout=20)
            took = time.monotonic() - asked
            for answer in streams.results():
                self.assertIsNone(answer.finish)
                self.assertIsNotNone(answer.error, answer.why())
                self.assertTrue(answer.done, "a stream ends with [DONE]")
        print(f"drain limit of 1 s: typed errors, ended after {took:.1f} s")

    def test_interrupt_at_the_terminal(self):
        # Ctrl-C reaches the whole process group.
        with Cluster() as cluster:
            streams = Streams(cluster, bodies(2, 60)).wait_begun()
            children = descendants(cluster.pid)
            os.killpg(cluster.pid, signal.SIGINT)
            cluster.check_gone(children)
            for answer in streams.results():
                self.assertTrue(answer.ok, answer.why())

    def test_clients_that_leave_stop_the_work(self):
        with Cluster() as cluster:
            for body in bodies(4, 4000):
                def leave(_answer):
                    raise ConnectionError("the client leaves")
                cluster.client().send("/v1/completions", {**body, "stream": True}, leave)
            left = time.monotonic()
            cluster.wait_blocks_free(timeout=5)
            print(f"4 clients left: all blocks free after {time.monotonic() - left:.2f} s")


class Kill(unittest.TestCase):
    def kill(self, cluster, name, streams, expected, recomputed_s=RECOMPUTED_S):
        """SIGKILL; every stream must go on with the same tokens or end with a typed error."""
        dead = cluster.process(name)
        at = time.monotonic()
        os.kill(dead["pid"], signal.SIGKILL)
        answers = streams.results()
        moved = failed = 0
        silence = 0.0
        for answer, want in zip(answers, expected):
            heard = min([t for t in answer.times if t > at] + [answer.ended])
            silence = max(silence, heard - at)
            self.assertEqual(answer.ids, want[:len(answer.ids)], "a moved stream has other tokens")
            if answer.ok:
                self.assertEqual(len(answer.ids), len(want))
                moved += 1
            else:
                self.assertTrue(answer.done and answer.error, answer.why())
                failed += 1
        cluster.wait_blocks_free(without=name)
        self.check_replaced(cluster, name, dead["pid"])
        counted = cluster.scrape(role="router").sum("baton_streams_moved_total")
        print(f"{name} killed under {len(answers)} streams: {moved} went on with the same tokens, "
              f"{failed} ended with an error; longest silence after the kill {silence:.2f} s; "
              f"{counted:.0f} moves counted; replaced and serving again")
        self.assertLessEqual(silence, DETECTED_S + recomputed_s)
        return moved, failed

    def check_replaced(self, cluster, name, dead_pid):
        wait_until(lambda: cluster.process(name)["pid"] != dead_pid, "a new " + name, 30)
        self.assertFalse(alive(dead_pid))
        role = "prefill" if name.startswith("p") else "decode"

        def serves():
            answers = in_parallel([
                lambda seed=seed: cluster.client().completion(prompts.ids(70, seed=seed), 2,
                                                              ignore_eos=True)
                for seed in range(500, 508)])
            return name in {answer.trace[role] for answer in answers if answer.ok}
        wait_until(serves, f"{name} serving again", 30)
        cluster.wait_blocks_free()

    def test_decode_worker_under_streams(self):
        asked = bodies(12 if FULL else 8, 200 if FULL else 100)
        with Cluster("deploy/local-2p2d.yaml", sets=["router.local_prefill=never"]) as cluster:
            expected = solo(cluster, asked)
            streams = Streams(cluster, asked).wait_begun()
            _, failed = self.kill(cluster, "d0", streams, expected)
        self.assertEqual(failed, 0, "the other decode worker could go on with all")

    def test_prefill_worker_under_streams_that_it_handed_over(self):
        asked = bodies(12 if FULL else 8, 200 if FULL else 100)
        with Cluster("deploy/local-2p2d.yaml", sets=["router.local_prefill=never"]) as cluster:
            expected = solo(cluster, asked)
            streams = Streams(cluster, asked).wait_begun()
            _, failed = self.kill(cluster, "p0", streams, expected)
        self.assertEqual(failed, 0, "streams do not need the prefill worker any more")

    def test_prefill_worker_in_the_middle_of_prompts(self):
        asked = bodies(6, 8, length=900)
        sets = ["router.local_prefill=never", "prefill.*.prefix_cache=false"]
        with Cluster("deploy/local-2p2d.yaml", sets=sets) as cluster:
            begin = time.monotonic()
            expected = solo(cluster, asked)
            all_prompts_s = time.monotonic() - begin
            cluster.wait_blocks_free()
            streams = Streams(cluster, asked)
            wait_until(lambda: cluster.scrape("p0").blocks().get("active"), "a prompt on p0")
            # The last prompt waits for all others on the one worker that is left.
            _, failed = self.kill(cluster, "p0", streams, expected, 3 * all_prompts_s)
        self.assertEqual(failed, 0, "the other prefill worker could take all prompts")

    def test_a_worker_that_hangs(self):
        # It is alive, so nothing ends it but baton up, as a liveness probe does.
        asked = bodies(4, 60)
        with Cluster("deploy/local-2p2d.yaml", sets=["router.local_prefill=never"],
                     args=["--kill-stuck-after", "2"]) as cluster:
            expected = solo(cluster, asked)
            streams = Streams(cluster, asked).wait_begun()
            hangs = cluster.process("d0")["pid"]
            os.kill(hangs, signal.SIGSTOP)
            for answer, want in zip(streams.results(), expected):
                self.assertEqual(answer.ids, want, answer.why())
            self.check_replaced(cluster, "d0", hangs)
            line = re.search(r"a program hangs and is killed.*", cluster.log_text())
            self.assertRegex(line[0], r'program=d0 reason="no answer: .*" for_s=[2-9]')
            print(line[0])

    def test_the_only_decode_worker(self):
        # Nobody else can go on: the streams wait for its replacement.
        asked = bodies(4, 300)
        with Cluster(sets=["router.local_prefill=never"]) as cluster:
            expected = solo(cluster, asked)
            streams = Streams(cluster, asked).wait_begun()
            # It maps what it had packed and is back within a second or two.
            _, failed = self.kill(cluster, "d0", streams, expected, recomputed_s=10)
        self.assertEqual(failed, 0, "the streams go on with the decode worker's next life")

    def test_router(self):
        # Its streams break; workers drop their requests; a new router serves on the same port.
        with Cluster() as cluster:
            streams = Streams(cluster, bodies(3, 2000)).wait_begun()
            dead = cluster.processes("router")[0]
            os.kill(dead["pid"], signal.SIGKILL)
            for answer in streams.results():
                self.assertFalse(answer.done)
            wait_until(lambda: cluster.processes("router")[0]["pid"] != dead["pid"],
                       "a new router", 30)

            def serves():
                return cluster.client().completion(prompts.ids(30, seed=1), 2).ok
            wait_until(serves, "the new router serving", 30)
            cluster.wait_blocks_free()
        print("router killed under 3 streams: replaced, serving, all blocks free")
