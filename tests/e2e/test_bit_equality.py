"""The same request gives the same tokens whatever runs beside it and wherever it runs.

Real processes; two reduction segments throughout, so that tensor parallel degrees 1 and 2 are the
same arithmetic. Reference: `baton generate`, one process without a network, for the greedy
requests; the first row for the sampled one.
"""

import os
import re
import unittest

import prompts
from client import in_parallel
from cluster import BIN, FULL, Cluster, generate, run_briefly

TOKENS = 48 if FULL else 32
# Lengths of the prompts: inside one block, over a border, several chunks.
LENGTHS = [5, 37, 200, 700] if FULL else [5, 37, 300]
SEGMENTS = "reduction_segments=2"
NEVER = "router.local_prefill=never"
ALWAYS = "router.local_prefill=always"
# The plain C++ kernels are slow: two short prompts.
SCALAR_LENGTHS = [5, 37]
SCALAR_TOKENS = 8


def requests():
    out = [(f"greedy, {n} tokens", prompts.ids(n, seed=7000 + n), {}) for n in LENGTHS]
    sampled = {"temperature": 0.9, "top_p": 0.95, "seed": 4711, "presence_penalty": 0.3}
    out.append(("sampled, 37 tokens", prompts.ids(37, seed=7037), sampled))
    return out


def instruction_sets():
    """Those of this machine, as the program itself names them."""
    text = run_briefly(["baton-decode", "--version"]).stdout
    return re.search(r"instruction sets: ([a-z0-9 ]+)", text)[1].split()


class Matrix:
    def __init__(self, test, names):
        self._test = test
        self._names = names
        self._wanted = {}
        self._bad = []
        print(f"{'':44s}" + "".join(f"{name:>20s}" for name in names))

    def want(self, name, ids):
        self._wanted[name] = ids

    def row(self, title, answers):
        """`answers`: name of the request to its token ids; a shorter list compares its length."""
        cells = []
        for name in self._names:
            if name not in answers:
                cells.append("-")
                continue
            ids = answers[name]
            want = self._wanted.setdefault(name, ids)[:len(ids)]
            if ids == want and ids:
                cells.append("same")
            else:
                at = next((i for i, (a, b) in enumerate(zip(ids, want)) if a != b), len(ids))
                cells.append(f"differs at {at}")
                self._bad.append(f"{title}, {name}: differs at token {at}")
        print(f"{title:44s}" + "".join(f"{cell:>20s}" for cell in cells))

    def check(self):
        self._test.assertFalse(self._bad, "\n".join(self._bad))


class BitEquality(unittest.TestCase):
    def ask(self, cluster, name, ids, fields, tokens=TOKENS):
        answer = cluster.client().completion(ids, max_tokens=tokens, ignore_eos=True, **fields)
        self.assertTrue(answer.ok, f"{name}: {answer.why()}")
        self.assertEqual(len(answer.ids), tokens)
        return answer.ids

    def alone(self, cluster):
        return {name: self.ask(cluster, name, ids, fields) for name, ids, fields in requests()}

    def among_others(self, cluster):
        """All requests at once among 31 others of 3 to 200 tokens."""
        ours = [lambda r=r: self.ask(cluster, *r) for r in requests()]
        others = [lambda n=n: self.ask(cluster, "other", prompts.ids(3 + 61 * n % 197, seed=900 + n),
                                       {"temperature": n % 3 * 0.5, "seed": n}, 8 + n)
                  for n in range(31)]
        mixed = others[:16] + ours + others[16:]
        results = in_parallel(mixed)[16:16 + len(ours)]
        return {request[0]: ids for request, ids in zip(requests(), results)}

    def after_prefix(self, cluster):
        """The cache holds all but the last tokens of each prompt."""
        out = {}
        for name, ids, fields in requests():
            self.ask(cluster, name, ids[:max(1, len(ids) - 9)], {}, 1)
            out[name] = self.ask(cluster, name, ids, fields)
        return out

    def test_same_tokens_everywhere(self):
        matrix = Matrix(self, [name for name, _, _ in requests()])
        for name, ids, fields in requests():
            if not fields:
                matrix.want(name, generate(ids, TOKENS, segments=2, ignore_eos=True)["tokens"])
        whole = ["prefill.*.chunk_time=60s", "decode.*.chunk_time=60s"]

        with Cluster(sets=[SEGMENTS, NEVER, *whole, "prefill.*.max_chunk_tokens=512"]) as cluster:
            matrix.row("never, chunks of 512, alone", self.alone(cluster))
            matrix.row("never, warm prefix (the same prompt)", self.alone(cluster))
            matrix.row("never, among 31 others", self.among_others(cluster))
            self.assertEqual(
                cluster.scrape(role="decode").sum("baton_prompt_tokens_computed_total"), 0)
            cluster.wait_blocks_free()
        with Cluster(sets=[SEGMENTS, NEVER, *whole, "prefill.*.max_chunk_tokens=17"]) as cluster:
            matrix.row("never, chunks of 17", self.alone(cluster))
        with Cluster(sets=[SEGMENTS, NEVER]) as cluster:
            matrix.row("never, chunks by time, after a prefix", self.after_prefix(cluster))
        with Cluster(sets=[SEGMENTS, ALWAYS, *whole, "decode.*.max_chunk_tokens=17"]) as cluster:
            matrix.row("always, chunks of 17, alone", self.alone(cluster))
            matrix.row("always, among 31 others", self.among_others(cluster))
        with Cluster(sets=[SEGMENTS, ALWAYS, *whole]) as cluster:
            matrix.row("always, chunks of 512, after a prefix", self.after_prefix(cluster))
        with Cluster(sets=[SEGMENTS, ALWAYS, "decode.*.kv_cache=36blocks"]) as cluster:
            matrix.row("always, 36 blocks (preempted), 31 others", self.among_others(cluster))
            cluster.wait_blocks_free()
        for p, d in ((1, 2), (2, 1), (2, 2)):
            with Cluster(sets=[SEGMENTS, NEVER, f"prefill.*.tensor_parallel={p}",
                               f"decode.*.tensor_parallel={d}"]) as cluster:
                matrix.row(f"never, tensor parallel P {p}, D {d}", self.alone(cluster))
                if p == d:
                    matrix.row(f"never, P {p}, D {d}, among 31 others", self.among_others(cluster))
        for isa in instruction_sets():
            with Cluster(sets=[SEGMENTS, NEVER, f"isa={isa}"]) as cluster:
                if isa == "scalar":
                    short = [r for r in requests() if len(r[1]) in SCALAR_LENGTHS]
                    row = {r[0]: self.ask(cluster, *r, SCALAR_TOKENS) for r in short}
                else:
                    row = self.alone(cluster)
                matrix.row(f"never, isa {isa}", row)
        matrix.check()


if not os.path.isdir(BIN):
    raise FileNotFoundError(BIN)
