"""Prompts with known token ids, of any length."""

import functools
import json
import lzma
import os
import random

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@functools.cache
def reference_items():
    """The prompts of tests/data/reference: text and ids, 3 to 2,500 tokens."""
    path = os.path.join(ROOT, "tests", "data", "reference", "smollm2_f32.json.xz")
    with lzma.open(path, "rt") as file:
        return json.load(file)["items"]


@functools.cache
def _running_text():
    """Token ids of the longest reference prompts, one after the other."""
    out = []
    for item in sorted(reference_items(), key=lambda item: -len(item["prompt_ids"]))[:3]:
        out += item["prompt_ids"]
    return out


def ids(length, seed):
    """A stretch of running text. Prompts of different seeds differ in their first tokens, so that
    they share no prefix."""
    source = _running_text()
    generator = random.Random(seed)
    start = generator.randrange(len(source))
    mark = [1000 + seed % 40000, 1000 + (seed // 40000 + 7 * seed) % 40000]
    out = mark[:length]
    while len(out) < length:
        take = source[start:start + length - len(out)]
        out += take
        start = 0
    return out
