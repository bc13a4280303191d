#!/usr/bin/env python3
"""Trains a tiny vocabulary of each kind and records what the `tokenizers` package makes of texts.

Usage: record_tiny.py

Writes tiny/NAME/tokenizer.json, tiny/NAME.gguf (the same vocabulary as GGUF
keys, where they can say it) and tiny/NAME.tsv; README.md describes them. Needs the PyPI
packages tokenizers and gguf; the output depends on their versions only.
"""

import json
import pathlib
import random
import re

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from case_texts import CLASSIC, CODE, EMOJI, LANGUAGES, MARKS, plain_texts
from gguf_from_json import write_gguf
from make_cases import LLAMA_PATTERN, QWEN_PATTERN, escape, numbers

HERE = pathlib.Path(__file__).parent / "tiny"
TEXTS = 200
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
WORDS = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT4O_PATTERN = WORDS + r"\p{N}{1,3}|" + REST
TEKKEN_PATTERN = WORDS.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "") + r"\p{N}|" + REST
DEEPSEEK_PATTERNS = [
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
]


def byte_level(patterns, digits=False):
    steps = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    steps += [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not patterns))
    return pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]


BYTE_LEVEL = {
    "gpt2": byte_level([]),
    "smollm": byte_level([], digits=True),
    "llama3": byte_level([LLAMA_PATTERN]),
    "qwen2": byte_level([QWEN_PATTERN]),
    "gpt4o": byte_level([GPT4O_PATTERN]),
    "tekken": byte_level([TEKKEN_PATTERN]),
    "deepseek_v3": byte_level(DEEPSEEK_PATTERNS),
}
MARK = normalizers.Replace(" ", "▁")
TO_SPACE = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
STRIP = decoders.Strip(" ", 1, 0)
# normalizer, pre-tokenizer, decoder
SENTENCE_PIECE = {
    "llama2": (normalizers.Sequence([normalizers.Prepend("▁"), MARK]), None, TO_SPACE + [STRIP]),
    "gemma": (MARK, pre_tokenizers.Split(" ", "merged_with_previous"), TO_SPACE),
    "mistral": (None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False), TO_SPACE + [STRIP]),
    "metaspace": (None, pre_tokenizers.Metaspace(prepend_scheme="always", split=True), TO_SPACE + [STRIP]),
}


def corpus():
    yield from LANGUAGES + CLASSIC + CODE + EMOJI + MARKS
    for text in LANGUAGES[:12]:
        yield from (text, text.upper(), text.title())


def train_byte_level(pre):
    tokenizer = Tokenizer(models.BPE(ignore_merges=pre is BYTE_LEVEL["llama3"] or pre is BYTE_LEVEL["tekken"]))
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=520, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def train_sentence_piece(normalizer, pre, decoder):
    """Trained on words, then given the pipeline: merges of words are those of texts."""
    model = models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=700, limit_alphabet=150, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([*corpus(), "a  b   c    d        e"], trainer)
    spec = json.loads(tokenizer.to_str())
    for runs in ("▁ ▁", "▁▁ ▁▁"):  # as Llama's vocabulary has them
        text = runs.replace(" ", "")
        if text not in spec["model"]["vocab"]:
            spec["model"]["vocab"][text] = len(spec["model"]["vocab"])
            spec["model"]["merges"].append(runs.split(" "))
    spec["added_tokens"] = [t for t in spec["added_tokens"] if not t["content"].startswith("<0x")]
    tokenizer = Tokenizer.from_str(json.dumps(spec))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.Sequence(decoder)
    return tokenizer


def add_tokens(name, tokenizer):
    """Tokens of all sorts; the odd ones where a GGUF file need not say them."""
    special = [AddedToken("<|begin|>", special=True), AddedToken("<|end|>", special=True)]
    if name in ("gpt2", "metaspace"):
        special.append(AddedToken("<|strip|>", special=True, lstrip=True, rstrip=True))
    tokenizer.add_special_tokens(special)
    plain = [AddedToken("<think>", normalized=False)]
    if name in ("gpt2", "qwen2", "metaspace"):
        plain.append(AddedToken("<\u01d6>", normalized=True))
    tokenizer.add_tokens(plain)
    if name in ("llama3", "llama2", "mistral"):
        bos = tokenizer.token_to_id("<|begin|>")
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<|begin|> $A", pair="<|begin|> $A <|begin|> $B", special_tokens=[("<|begin|>", bos)])


def texts_of(rng):
    chosen = CLASSIC + LANGUAGES[::3] + CODE + EMOJI[::2] + MARKS[::2]
    rest = [t for t in dict.fromkeys(plain_texts()) if len(t) < 60 and t not in chosen]
    return chosen + rng.sample(rest, TEXTS - len(chosen))


def special_texts_of(rng):
    parts = ["<|begin|>", "<|end|>", "<think>", "<\u01d6>", "<u\u0308\u0304>", "<|strip|>", "<s>", "<|", "a", " ", "  ", "\n", "é", "▁", " x"]
    return ["".join(rng.choice(parts) for _ in range(rng.randint(1, 7))) for _ in range(60)]


def record(name, tokenizer):
    folder = HERE / name
    folder.mkdir(parents=True, exist_ok=True)
    spec = json.loads(tokenizer.to_str())
    text = json.dumps(spec, ensure_ascii=False, separators=(",", ":"))
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    rng = random.Random(name)
    special = re.compile("|".join(re.escape(t["content"]) for t in spec["added_tokens"] if t["special"]))
    with open(HERE / f"{name}.tsv", "wb") as out:
        for case in texts_of(rng) + special_texts_of(rng):
            ids = tokenizer.encode(case, add_special_tokens=False).ids
            plain = None if special.search(case) else ids
            decoded = tokenizer.decode(ids, skip_special_tokens=False)
            fields = [escape(case), b"=" if plain == ids else numbers(plain), numbers(ids)]
            out.write(b"\t".join(fields + [b"=" if decoded == case else escape(decoded)]) + b"\n")
    if name not in ("mistral", "metaspace", "gpt2", "qwen2"):
        write_gguf(spec, HERE / f"{name}.gguf")
    print(name, tokenizer.get_vocab_size())


def main():
    HERE.mkdir(exist_ok=True)
    for name, pre in BYTE_LEVEL.items():
        tokenizer = train_byte_level(pre)
        if name == "qwen2":
            tokenizer.normalizer = normalizers.NFC()
        add_tokens(name, tokenizer)
        record(name, tokenizer)
    for name, steps in SENTENCE_PIECE.items():
        tokenizer = train_sentence_piece(*steps)
        add_tokens(name, tokenizer)
        record(name, tokenizer)


if __name__ == "__main__":
    main()
