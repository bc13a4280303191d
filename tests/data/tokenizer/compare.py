#!/usr/bin/env python3
"""Compares Baton's tokenizer with the `tokenizers` package on whole vocabularies.

Usage: compare.py [--race] ENCODE FOLDER...

ENCODE is the program tokenizer_encode (build/release/bin), each FOLDER has the tokenizer.json (or
tokenizer.json.xz) of a model. Every text of case_texts.py is encoded and decoded by both, with and
without special tokens in it: once from tokenizer.json, once from the same vocabulary as a GGUF file
has it. Then (--race: this alone) each encodes a megabyte of mixed text on one thread, in turn, five
times; medians are printed. Needs the PyPI packages tokenizers, gguf and numpy. Exit status 1: something differs.
"""

import json
import lzma
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from tokenizers import Tokenizer

from case_texts import mark_texts, plain_texts
from gguf_from_json import write_gguf

SHOWN = 5
RUNS = 5
PIECE = 2000  # characters


def read_json(folder):
    """The text of tokenizer.json."""
    packed = folder / "tokenizer.json.xz"
    return lzma.decompress(packed.read_bytes()) if packed.exists() else (folder / "tokenizer.json").read_bytes()


def special_texts(spec, rng):
    """Texts in which the file's own added tokens lie between other ones."""
    added = [t["content"] for t in spec["added_tokens"]]
    added = added if len(added) < 40 else added[:20] + added[-10:] + rng.sample(added, 30)
    between = ["", " ", "  ", "a", " b ", "\n", "user\n", "é", "1 2", "▁", "<|", "|>", "<", "x▁y "]
    for token in added:
        yield token
        yield f"{token}{token[:-1]} {token} x"
    for _ in range(300):
        yield "".join(rng.choice(between) + rng.choice(added) for _ in range(rng.randint(1, 6))) + rng.choice(between)


def mixed_text(size):
    """About `size` bytes of many languages, code and numbers."""
    rng = random.Random(5)
    texts = [t for t in plain_texts() if 8 < len(t) < 2000 and len(set(t)) > 4]
    parts, total = [], 0
    while total < size:
        parts.append(rng.choice(texts))
        total += len(parts[-1].encode()) + 1
    return "\n".join(parts)


class Program:
    """tokenizer_encode over one model."""

    def __init__(self, encode, model, special):
        command = [encode, str(model)] + (["--special"] if special else [])
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, text):
        data = text.encode()
        self.process.stdin.write(struct.pack("<I", len(data)) + data)
        self.process.stdin.flush()
        count = self.number()
        ids = struct.unpack(f"<{count}i", self.process.stdout.read(4 * count))
        return list(ids), self.process.stdout.read(self.number()).decode()

    def number(self):
        head = self.process.stdout.read(4)
        if len(head) < 4:
            sys.exit(f"tokenizer_encode ended with {self.process.wait()}")
        return struct.unpack("<I", head)[0]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def differences(program, oracle, texts, special, skips):
    found, decoded = [], []
    for text in texts:
        want = oracle.encode(text, add_special_tokens=False).ids
        ids, back = program(text)
        if ids != want:
            found.append((text, want, ids))
        elif back != oracle.decode(want, skip_special_tokens=skips):
            decoded.append((text, oracle.decode(want, skip_special_tokens=skips), back))
    for name, cases in (("ids", found), ("text", decoded)):
        if cases:
            print(f"  {len(cases)} of {len(texts)} differ in {name}{' with special tokens' if special else ''}")
        for text, want, got in cases[:SHOWN]:
            print(f"    {text[:80]!r}\n      expected {want[:40]!r}\n      got      {got[:40]!r}")
    return len(found) + len(decoded)


def compare(encode, name, spec, text, model, unknown_to_gguf):
    """The number of differences between `model`, a folder or GGUF file, and the package."""
    rng = random.Random(9)
    plain = [t for t in dict.fromkeys([*plain_texts(), *mark_texts()])]
    # Special tokens in a user's text are no tokens for Baton: such texts are of the other list.
    special = [t["content"] for t in spec["added_tokens"] if t["special"]]
    plain = [t for t in plain if not any(s in t for s in special)]
    oracle = Tokenizer.from_str(text)
    broken = 0
    for texts, is_special in ((plain, False), ([*special_texts(spec, rng)], True)):
        texts = [t for t in texts if not unknown_to_gguf(t)]
        program = Program(encode, model, is_special)
        broken += differences(program, oracle, texts, is_special, not is_special)
        program.close()
        print(f"  {name}: {len(texts)} {'texts with special tokens' if is_special else 'plain texts'}", flush=True)
    return broken


def program_seconds(program):
    with open(f"/proc/{program.process.pid}/schedstat", encoding="ascii") as times:
        return int(times.read().split()[0]) / 1e9


def race(encode, text, model):
    """CPU time of both in turn, one thread each; the program's is with decoding, through two pipes."""
    mixed = mixed_text(1_000_000)
    oracle = Tokenizer.from_str(text)
    size = len(mixed.encode()) / 1e6
    program = Program(encode, model, True)
    ids, _ = program(mixed)
    same = ids == oracle.encode(mixed, add_special_tokens=False).ids
    pieces = [mixed[i:i + PIECE] for i in range(0, len(mixed), PIECE)]
    for name, texts in (("a text of 1 MB", [mixed]), (f"texts of {PIECE:,} characters", pieces)):
        rates, ratios = [], []
        for _ in range(RUNS):
            start = program_seconds(program)
            for one in texts:
                program(one)
            ours = program_seconds(program) - start
            start = time.process_time()
            for one in texts:
                oracle.encode(one, add_special_tokens=False)
            theirs = time.process_time() - start
            rates.append((size / ours, size / theirs))
            ratios.append(theirs / ours)
        ours, theirs = (statistics.median(rate) for rate in zip(*rates))
        print(f"  {name}: {ours:.1f} MB/s, tokenizers {theirs:.1f} MB/s, {statistics.median(ratios):.1f} "
              f"({min(ratios):.1f}-{max(ratios):.1f}) x", flush=True)
    program.close()
    if not same:
        print("  ids of the mixed text DIFFER")
    return 0 if same else 1


def main():
    arguments = [word for word in sys.argv[1:] if word != "--race"]
    encode, broken = arguments[0], 0
    for folder in map(pathlib.Path, arguments[1:]):
        print(folder.name, flush=True)
        text = read_json(folder).decode()
        spec = json.loads(text)
        with tempfile.TemporaryDirectory() as temporary:
            copy = pathlib.Path(temporary)
            (copy / "tokenizer.json").write_text(text, encoding="utf-8")
            broken += race(encode, text, copy)
            if "--race" in sys.argv:
                continue
            broken += compare(encode, "tokenizer.json", spec, text, copy, lambda _: False)
            pre = write_gguf(spec, copy / "vocabulary.gguf")
            # A GGUF file says nothing about U+2581 in the text of a user-defined token.
            marks = any("▁" in t["content"] and not t["special"] for t in spec["added_tokens"])
            unknown = (lambda t: "▁" in t) if marks and pre == "default" else (lambda _: False)
            broken += compare(encode, f"GGUF, pre {pre}", spec, text, copy / "vocabulary.gguf", unknown)
    print("differences:", broken)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
