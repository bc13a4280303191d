"""Workers use each other's CPUs while these are idle, and only then."""

import contextlib
import itertools
import os
import signal
import threading
import unittest

import prompts
from client import Background, in_parallel
from cluster import Cluster, wait_until

ALONE = "workers.lend_cpus=off"
METRIC = "baton_borrowed_cpu_seconds_total"


def answer(cluster, seed, prompt=300, tokens=32):
    out = cluster.client().completion(prompts.ids(prompt, seed=seed), max_tokens=tokens,
                                      ignore_eos=True, temperature=0.8, seed=seed)
    if not out.ok:
        raise AssertionError(out.why())
    return out


class CpuLending(unittest.TestCase):
    def setUp(self):
        self.assertGreaterEqual(len(os.sched_getaffinity(0)), 2, "needs two CPUs")

    def borrowed(self, cluster, name):
        return cluster.scrape(name=name).sum(METRIC)

    def test_answers_are_equal_and_idle_cpus_are_used(self):
        sets = ["router.local_prefill=never"]
        with Cluster(sets=[*sets, ALONE]) as cluster:
            alone = [answer(cluster, seed).ids for seed in range(2)]
            for name in ("p0", "d0"):
                self.assertEqual(self.borrowed(cluster, name), 0)
        with Cluster(sets=sets) as cluster:
            lent = [answer(cluster, seed).ids for seed in range(2)]
            self.assertEqual(lent, alone)
            # On a busy machine the CPUs are not free at every moment.
            for name in ("p0", "d0"):
                wait_until(lambda: answer(cluster, 5) and self.borrowed(cluster, name) > 0,
                           f"{name} borrows", 60)
            print({name: round(self.borrowed(cluster, name), 3) for name in ("p0", "d0")})
            self.dead_worker_frees_its_cpu(cluster)
            self.decode_keeps_its_cpu(cluster)
            self.decode_gives_way_to_a_queue(cluster)

    def dead_worker_frees_its_cpu(self, cluster):
        """d0 is killed in the middle of a step, and its successor again and again; p0 goes on."""
        stream = Background(lambda: cluster.client().completion(
            prompts.ids(50, seed=70), max_tokens=200, ignore_eos=True))
        wait_until(lambda: cluster.scrape(role="decode").sum("vllm:num_requests_running") > 0,
                   "a stream on d0")
        old = cluster.process("d0")["pid"]
        os.kill(old, signal.SIGKILL)
        self.assertTrue(stream.result().ok, stream.result().why())
        wait_until(lambda: cluster.process("d0")["pid"] != old, "a new d0")
        for name in ("p0", "d0"):
            before = self.borrowed(cluster, name)
            wait_until(lambda: answer(cluster, 6) and self.borrowed(cluster, name) > before,
                       f"{name} borrows again", 60)

    @contextlib.contextmanager
    def streams(self, cluster):
        """Four streams that decode all the time."""
        started, stop = threading.Semaphore(0), threading.Event()

        class Stopped(Exception):
            pass

        def run(seed):
            def on_token(out):
                if len(out.ids) == 4:
                    started.release()
                if stop.is_set():
                    raise Stopped
            try:
                cluster.client().send("/v1/completions", {
                    "prompt": prompts.ids(40, seed=seed), "max_tokens": 1500, "temperature": 0,
                    "ignore_eos": True, "stream": True, "return_token_ids": True}, on_token)
            except Stopped:
                pass
        running = [Background(lambda seed=seed: run(seed)) for seed in range(80, 84)]
        try:
            for _ in running:
                self.assertTrue(started.acquire(timeout=60), "the streams did not start")
            yield
        finally:
            stop.set()
            for stream in running:
                stream.result()

    def prompts_beside_streams(self, cluster, seeds, at_once):
        """(seconds that p0 computed, those that it had of d0's CPU)"""
        def computed():
            return cluster.scrape(name="p0").sum("baton_engine_step_seconds_sum", kind="prefill")
        with self.streams(cluster):
            before, prefill = self.borrowed(cluster, "p0"), computed()
            in_parallel([lambda seed=seed: answer(cluster, seed, prompt=600, tokens=1)
                         for seed in seeds], at_once)
            used, prefill = self.borrowed(cluster, "p0") - before, computed() - prefill
        print(f"{at_once} at once: p0 computed for {prefill:.2f} s, "
              f"of d0's CPU it had {used:.3f} s")
        return prefill, used

    def decode_keeps_its_cpu(self, cluster):
        """While d0 decodes, p0's prompts use next to nothing of its CPU."""
        prefill, used = self.prompts_beside_streams(cluster, range(90, 92), 1)
        self.assertLess(used, 0.25 * prefill)

    def decode_gives_way_to_a_queue(self, cluster):
        """Prompts that wait get much of it: more than half on an idle machine, less where steps are
        too long to give way or borrowed CPUs are not free."""
        seeds = iter(range(100, 1000))

        def gives_way():
            prefill, used = self.prompts_beside_streams(cluster, list(itertools.islice(seeds, 6)), 6)
            return used > 0.05 * prefill
        wait_until(gives_way, "d0 gives way", 120)


if __name__ == "__main__":
    unittest.main()
