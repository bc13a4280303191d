"""A model whose layers mostly see a window of 24 tokens: the same tokens wherever it runs, only the
window's blocks cross, and at 8,000 tokens the windows hold a handful of blocks."""

import math
import os
import random
import struct
import tempfile
import threading
import time
import unittest

from client import in_parallel
from cluster import Cluster, generate
from prompts import ROOT

TINY = os.path.join(ROOT, "tests", "data", "models", "tiny_gemma3.gguf")
WINDOW, FULL_LAYERS, WINDOW_LAYERS = 24, 1, 6
BLOCK = 32
LAYER_BLOCK_BYTES = BLOCK * 2 * 64 * 2  # one KV head of 64
TOKENS = 24
LENGTHS = [5, 33, 300, 1000]
LONG = 8000
SETS = ["reduction_segments=2", "prefill.*.kv_cache=300blocks", "decode.*.kv_cache=300blocks"]
NEVER = "router.local_prefill=never"
ALWAYS = "router.local_prefill=always"
WHOLE = ["prefill.*.chunk_time=60s", "decode.*.chunk_time=60s"]


def long_model(folder):
    """The tiny model with a context of 16,384 tokens."""
    with open(TINY, "rb") as file:
        data = bytearray(file.read())
    key = b"gemma3.context_length"
    struct.pack_into("<I", data, data.index(key) + len(key) + 4, 16384)
    path = os.path.join(folder, "gemma3_16384.gguf")
    with open(path, "wb") as file:
        file.write(data)
    return path


def ids(length):
    generator = random.Random(length)
    return [generator.randrange(3, 300) for _ in range(length)]


def bytes_of(tokens):
    """What a hand-over of so many tokens takes: all of the full layer, and of the others the blocks
    that the next token sees something of."""
    pieces = math.ceil(tokens / BLOCK)
    first = max(0, tokens - WINDOW + 1) // BLOCK
    return (FULL_LAYERS * pieces + WINDOW_LAYERS * (pieces - first)) * LAYER_BLOCK_BYTES


class Windows(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="baton-windows-")
        self.addCleanup(folder.cleanup)
        self.model = long_model(folder.name)
        self.wanted = {n: generate(ids(n), TOKENS, segments=2, ignore_eos=True,
                                   model=self.model)["tokens"] for n in LENGTHS}

    def cluster(self, *sets):
        return Cluster(sets=[f"model.path={self.model}", *SETS, *sets])

    def ask(self, cluster, n, tokens=TOKENS, **fields):
        answer = cluster.client().completion(ids(n), max_tokens=tokens, ignore_eos=True, **fields)
        self.assertTrue(answer.ok, f"{n} tokens: {answer.why()}")
        return answer

    def check(self, cluster, title):
        traces = {}
        for n in LENGTHS:
            answer = self.ask(cluster, n)
            self.assertEqual(answer.ids, self.wanted[n], f"{title}: {n} tokens")
            traces[n] = answer.trace
        print(f"{title}: same")
        return traces

    def check_among_others(self, cluster, title):
        others = [lambda i=i: self.ask(cluster, 20 + 37 * i % 100, 90 + i, temperature=1, seed=i)
                  for i in range(15)]
        ours = [lambda n=n: self.ask(cluster, n) for n in LENGTHS]
        answers = in_parallel(others[:8] + ours + others[8:])[8:8 + len(ours)]
        for n, answer in zip(LENGTHS, answers):
            self.assertEqual(answer.ids, self.wanted[n], f"{title}: {n} tokens")
        print(f"{title}: same")

    def test_same_tokens_and_only_the_window_crosses(self):
        with self.cluster(NEVER, *WHOLE, "prefill.*.max_chunk_tokens=512") as cluster:
            for n, trace in self.check(cluster, "never, chunks of 512").items():
                self.assertEqual(trace["transfer_bytes"], bytes_of(n), f"{n} tokens")
            for n, trace in self.check(cluster, "never, the same prompts again").items():
                # The last token is computed; blocks of the decode worker are not sent again.
                self.assertEqual(trace["prompt_tokens_cached"], (n - 1) // BLOCK * BLOCK)
                self.assertLess(trace["transfer_bytes"], 1 + (FULL_LAYERS + WINDOW_LAYERS)
                                * LAYER_BLOCK_BYTES)
            self.check_among_others(cluster, "never, among 15 others")
            cluster.wait_blocks_free()
            self.check_long(cluster)
        with self.cluster(NEVER, *WHOLE, "prefill.*.max_chunk_tokens=17") as cluster:
            self.check(cluster, "never, chunks of 17")
        with self.cluster(ALWAYS, *WHOLE, "decode.*.max_chunk_tokens=17") as cluster:
            self.check(cluster, "always, chunks of 17")
        with self.cluster(ALWAYS, "decode.*.kv_cache=36blocks") as cluster:
            self.check_among_others(cluster, "always, 36 blocks, among 15 others")
            preempted = cluster.scrape(role="decode").sum("vllm:num_preemptions_total")
            self.assertGreater(preempted, 0)
            cluster.wait_blocks_free()
        for p, d in ((1, 2), (2, 1), (2, 2)):
            with self.cluster(NEVER, f"prefill.*.tensor_parallel={p}",
                              f"decode.*.tensor_parallel={d}") as cluster:
                self.check(cluster, f"never, tensor parallel P {p}, D {d}")

    def check_long(self, cluster):
        """Blocks in use of both workers while a prompt of 8,000 tokens runs."""
        most = {"p0": 0, "d0": 0}
        over = threading.Event()

        def watch():
            while not over.is_set():
                for name, states in cluster.busy_blocks().items():
                    most[name] = max(most[name], int(sum(states.values())))
                time.sleep(0.05)
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            answer = self.ask(cluster, LONG, tokens=400)
        finally:
            over.set()
            watcher.join()
        self.assertEqual(answer.trace["transfer_bytes"], bytes_of(LONG))
        blocks = math.ceil((LONG + 400) / BLOCK)
        seen = math.ceil((WINDOW - 1) / BLOCK) + 1
        print(f"{LONG} tokens: blocks in use at most, both groups: p0 {most['p0']}, d0 {most['d0']}; "
              f"with full tables {2 * LONG // BLOCK} and {2 * blocks}")
        # The prefill worker's chunk takes 16 more.
        self.assertLessEqual(most["p0"], LONG // BLOCK + seen + 17)
        self.assertLessEqual(most["d0"], blocks + seen + 1)
        self.assertGreater(most["d0"], LONG // BLOCK)


if __name__ == "__main__":
    unittest.main()
