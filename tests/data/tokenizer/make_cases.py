#!/usr/bin/env python3
"""Writes the tokenizer's oracle data: texts and what the `tokenizers` package makes of them.

Usage: make_cases.py SMOLLM2.gguf LLAMA_3_1/tokenizer.json QWEN_3/tokenizer.json   (.json or .json.xz)

Needs the PyPI packages tokenizers and gguf. Files are written beside this script; README.md
describes them. The output depends on the inputs and the package versions only.
"""

import json
import lzma
import pathlib
import random
import sys

from gguf import GGUFReader
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from case_texts import mark_texts, plain_texts, special_texts

HERE = pathlib.Path(__file__).parent
LLAMA_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_PATTERN = LLAMA_PATTERN.replace("{1,3}", "")
CONTROL, USER_DEFINED, NORMAL = 3, 4, 1


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def split_by(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


PRE_TOKENIZERS = {
    "gpt-2": byte_level(True),
    "smollm": pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), byte_level(True)]
    ),
    "llama-bpe": pre_tokenizers.Sequence([split_by(LLAMA_PATTERN), byte_level(False)]),
    "qwen2": pre_tokenizers.Sequence([split_by(QWEN_PATTERN), byte_level(False)]),
}


def oracle(vocab, merges, pre, ignore_merges=False, special=(), user_defined=()):
    model = models.BPE(vocab=vocab, merges=merges, ignore_merges=ignore_merges)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[pre]
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in user_defined])
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special])
    return tokenizer


def read_smollm2(path):
    fields = GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    types = fields["tokenizer.ggml.token_type"].contents()
    special = [t for t, kind in zip(tokens, types) if kind == CONTROL]
    return {t: i for i, t in enumerate(tokens)}, merges, special


def read_json(path):
    data = pathlib.Path(path).read_bytes()
    return json.loads(lzma.decompress(data) if path.endswith(".xz") else data)


def reduced(spec, merge_count, whole_count):
    """A small vocabulary of the same shape: bytes, the first merges, some tokens no merge makes."""
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in spec["model"]["merges"]]
    vocab = spec["model"]["vocab"]
    tokens = [t for t in vocab if t in set(pre_tokenizers.ByteLevel.alphabet())]
    kept, have = [], set(tokens)
    for left, right in merges[:merge_count]:
        if left in have and right in have:
            kept.append((left, right))
            if left + right not in have:
                have.add(left + right)
                tokens.append(left + right)
    longer = [t for t in vocab if t not in have and len(t) > 2]
    tokens += random.Random(7).sample(longer, whole_count)
    return tokens, kept


def write_vocabulary(path, pre, tokens, merges, user_defined, special):
    lines = [f"pre {pre}"]
    lines += [f"token {NORMAL} {t}" for t in tokens]
    lines += [f"token {USER_DEFINED} {t}" for t in user_defined]
    lines += [f"token {CONTROL} {t}" for t in special]
    lines += [f"merge {left} {right}" for left, right in merges]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def escape(text):
    out = []
    for byte in text.encode("utf-8"):
        if byte < 0x20 or byte in (0x5C, 0x7F):
            out.append(b"\\x%02x" % byte)
        else:
            out.append(bytes([byte]))
    return b"".join(out)


def pieces(pre, text):
    """Lengths in bytes of the pieces."""
    return [
        len(text[begin:end].encode("utf-8"))
        for _, (begin, end) in PRE_TOKENIZERS[pre].pre_tokenize_str(text)
    ]


def numbers(values):
    return b"-" if values is None else ",".join(map(str, values)).encode()


def write_cases(path, texts, columns):
    with open(path, "wb") as out:
        for text in texts:
            out.write(b"\t".join([escape(text)] + [numbers(c(text)) for c in columns]) + b"\n")


def write_code_points(path):
    """For every code point where "a{c}1{c}{c}!" is cut, as runs of equal cuts (in characters)."""
    with open(path, "w") as out:
        for pre in ("smollm", "llama-bpe"):
            first, previous = 0, None
            for c in list(range(0x110000)) + [None]:
                if c is not None and 0xD800 <= c <= 0xDFFF:
                    continue
                cuts = None
                if c is not None:
                    text = "a{0}1{0}{0}!".format(chr(c))
                    found = PRE_TOKENIZERS[pre].pre_tokenize_str(text)
                    cuts = "".join(str(end) for _, (_, end) in found)
                if cuts != previous:
                    if previous is not None:
                        out.write(f"{pre} {first:x} {previous}\n")
                    first, previous = c, cuts


def write_long_runs(path, tokenizer):
    with open(path, "wb") as out:
        for unit in ["a", " ", "\n", "7", "é", "'", "ab", "一", "🙂", "a\u0301", "\t ", "z!"]:
            text = unit * (1_000_000 // len(unit.encode("utf-8")))
            ids = tokenizer.encode(text).ids
            digest = 0
            for i in ids:
                digest = (digest * 1_000_003 + i + 1) % (1 << 61)
            out.write(b"\t".join([escape(unit), str(len(ids)).encode(), str(digest).encode()]) + b"\n")


def write_nfc(cases_path, digests_path):
    """Texts with marks in form C, and a digest of each 4,096 code points in several contexts."""
    to_nfc = normalizers.NFC().normalize_str
    with open(cases_path, "wb") as out:
        for text in dict.fromkeys(mark_texts()):
            out.write(escape(text) + b"\t" + escape(to_nfc(text)) + b"\n")
    with open(digests_path, "w") as out:
        for block in range(0, 0x110000, 0x1000):
            digest = 0xCBF29CE484222325  # FNV-1a
            for c in range(block, block + 0x1000):
                if not 0xD800 <= c <= 0xDFFF:
                    c = chr(c)
                    for byte in to_nfc(f"{c} e{c}\u0323{c}\u1161 \u0301\u0334{c}{c}").encode():
                        digest = (digest ^ byte) * 0x100000001B3 % 2**64
            out.write(f"{block:x} {digest:x}\n")


def main():
    smollm2_path, llama_path, qwen_path = sys.argv[1:4]
    vocab, merges, special = read_smollm2(smollm2_path)
    smollm = oracle(vocab, merges, "smollm")
    gpt2 = oracle(vocab, merges, "gpt-2")
    columns = [lambda t: smollm.encode(t).ids, lambda t: gpt2.encode(t).ids]
    with_control = oracle(vocab, merges, "smollm", special=special)
    with_special = [lambda t: with_control.encode(t).ids]

    for name, path, pre, added in (
        ("llama3", llama_path, "llama-bpe", ["<|begin_of_text|>", "<|eot_id|>", "<|im_end|>"]),
        ("qwen3", qwen_path, "qwen2", ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]),
    ):
        spec = read_json(path)
        ignore_merges = spec["model"]["ignore_merges"]
        tokens, kept = reduced(spec, 1500, 300)
        user_defined = ["<think>", "</think>"] if name == "qwen3" else []
        write_vocabulary(HERE / f"vocabulary_{name}_reduced.txt", pre, tokens, kept, user_defined, added)
        ids = {t: i for i, t in enumerate(tokens)}
        plain = oracle(ids, kept, pre, ignore_merges, user_defined=user_defined)
        full = oracle(ids, kept, pre, ignore_merges, added, user_defined)
        columns += [
            lambda t, pre=pre: pieces(pre, t),
            lambda t, plain=plain: plain.encode(t).ids if len(t) < 40 else None,
        ]
        with_special.append(lambda t, full=full: full.encode(t).ids)

    texts = list(dict.fromkeys(plain_texts()))
    write_cases(HERE / "cases.tsv", texts, columns)
    write_cases(HERE / "special_cases.tsv", list(dict.fromkeys(special_texts())), with_special)
    write_code_points(HERE / "code_points.txt")
    write_nfc(HERE / "nfc_cases.tsv", HERE / "nfc_digests.txt")
    write_long_runs(HERE / "long_runs.tsv", smollm)
    print(len(texts), "texts", file=sys.stderr)


if __name__ == "__main__":
    main()
