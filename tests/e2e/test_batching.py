"""Continuous batching and paging are real."""

import math
import threading
import unittest

import prompts
from client import Background, in_parallel
from cluster import FULL, Cluster, wait_until

BLOCK = 32
STREAMS = 16


class ContinuousBatching(unittest.TestCase):
    def late_request(self, mode):
        """First token of a request that arrives while 16 streams run."""
        with Cluster(sets=[f"router.local_prefill={mode}"]) as cluster:
            cluster.client().completion(prompts.ids(300, seed=1), max_tokens=4)  # warm
            started = threading.Semaphore(0)

            def stream(seed):
                body = {"prompt": prompts.ids(20 + seed, seed=10 + seed), "temperature": 0,
                        "max_tokens": 240, "ignore_eos": True, "stream": True,
                        "return_token_ids": True}

                def count(answer):
                    if len(answer.ids) == 8:
                        started.release()
                return cluster.client().send("/v1/completions", body, count)

            running = [Background(lambda seed=seed: stream(seed)) for seed in range(STREAMS)]
            for _ in range(STREAMS):
                self.assertTrue(started.acquire(timeout=60), "16 streams did not start")
            late = cluster.client().completion(prompts.ids(100, seed=99), max_tokens=4,
                                               ignore_eos=True)
            still = sum(stream.running() for stream in running)
            streams = [stream.result() for stream in running]
            batches = cluster.scrape(role="decode").buckets("baton_engine_batch_sequences")
            cluster.wait_blocks_free()
        for answer in [late, *streams]:
            self.assertTrue(answer.ok, answer.why())
        self.assertEqual(still, STREAMS, "the streams ended before the late request did")
        window = [gap for answer in streams for gap, at in zip(answer.gaps(), answer.times[1:])
                  if late.sent <= at <= late.times[-1]]
        step = max(window)
        own = late.trace["prefill_ms"] / 1e3
        print(f"{mode}: first token after {late.ttft * 1e3:.0f} ms, its own prefill "
              f"{own * 1e3:.0f} ms, longest step then {step * 1e3:.0f} ms, of 16 streams "
              f"{still} running; steps by batch size: "
              f"{ {bound: int(n) for bound, n in batches.items() if n} }")
        self.assertLessEqual(late.ttft, own + 3 * step)
        return batches

    def test_late_request_prefilled_elsewhere(self):
        self.late_request("never")

    def test_late_request_prefilled_beside_the_batch(self):
        self.late_request("always")

    def test_batch_follows_the_load(self):
        with Cluster(sets=["router.local_prefill=auto"]) as cluster:
            # Streams of different lengths start and end inside one batch.
            answers = in_parallel([
                lambda seed=seed: cluster.client().completion(
                    prompts.ids(10, seed=seed), max_tokens=4 + 5 * seed, ignore_eos=True)
                for seed in range(24)])
            batches = cluster.scrape(role="decode").buckets("baton_engine_batch_sequences")
        self.assertTrue(all(answer.ok for answer in answers))
        used = {bound: int(n) for bound, n in batches.items() if n}
        print(f"steps by batch size: {used}")
        self.assertGreaterEqual(len(used), 5)


class Paging(unittest.TestCase):
    """A pool runs exactly as many requests at once as their blocks allow."""

    def test_pool_is_used_to_its_last_block(self):
        prompt, output = 184, 16
        each = math.ceil((prompt + output) / BLOCK)
        fit = 8
        sets = ["router.local_prefill=always", f"decode.*.kv_cache={fit * each}blocks",
                "decode.*.prefix_cache=false", "decode.*.max_chunk_tokens=4096",
                "decode.*.chunk_time=60s"]
        with Cluster("deploy/colocated.yaml", sets=sets) as cluster:
            alone = [cluster.client().completion(prompts.ids(prompt, seed=seed), output,
                                                 ignore_eos=True) for seed in range(2 * fit)]
            before = cluster.scrape(role="decode").buckets("baton_engine_batch_sequences")
            together = in_parallel([
                lambda seed=seed: cluster.client().completion(
                    prompts.ids(prompt, seed=seed), output, ignore_eos=True)
                for seed in range(2 * fit)])
            scrape = cluster.scrape(role="decode")
            after = scrape.buckets("baton_engine_batch_sequences")
            cluster.wait_blocks_free()
        for one, other in zip(alone, together):
            self.assertTrue(other.ok, other.why())
            self.assertEqual(one.ids, other.ids)
        used = {bound: int(n - before[bound]) for bound, n in after.items() if n - before[bound]}
        print(f"{fit * each} blocks, {each} a request: steps by batch size {used}")
        self.assertEqual(max(used), fit, "largest batch")
        self.assertEqual(scrape.sum("vllm:num_preemptions_total"), 0)

    def test_scattered_blocks_change_nothing(self):
        # A small pool with the cache on: after some rounds of unequal lengths the free blocks lie
        # in no order.
        with Cluster(sets=["router.local_prefill=auto", "decode.*.kv_cache=48blocks",
                           "prefill.*.kv_cache=48blocks"]) as cluster:
            asks = [(prompts.ids(5 + 37 * n % 290, seed=n), 4 + 7 * n % 40) for n in range(24)]

            def ask(n):
                return cluster.client().completion(asks[n][0], asks[n][1], ignore_eos=True)
            alone = [ask(n) for n in range(24)]
            for number in range(2 if FULL else 1):
                for n, answer in enumerate(in_parallel([lambda n=n: ask(n) for n in range(24)])):
                    self.assertTrue(answer.ok, answer.why())
                    self.assertEqual(answer.ids, alone[n].ids, f"round {number}, request {n}")
            cluster.wait_blocks_free()
            preempted = cluster.scrape(role="decode").sum("vllm:num_preemptions_total")
        print(f"24 requests at once over 48 scattered blocks: as alone; {preempted:.0f} preemptions")

    def test_preempted_streams_give_the_same_tokens(self):
        sets = ["router.local_prefill=always", "decode.*.kv_cache=24blocks"]
        with Cluster("deploy/colocated.yaml", sets=sets) as cluster:
            def ask(seed):
                return cluster.client().completion(prompts.ids(40, seed=seed), 150,
                                                   ignore_eos=True)
            alone = [ask(seed) for seed in range(8)]
            together = in_parallel([lambda seed=seed: ask(seed) for seed in range(8)])
            wait_until(lambda: cluster.scrape(role="decode").sum("vllm:num_preemptions_total"),
                       "a preemption")
            cluster.wait_blocks_free()
        for one, other in zip(alone, together):
            self.assertTrue(other.ok, other.why())
            self.assertEqual(one.ids, other.ids)
