"""The vocabulary of a tokenizer.json as the keys that a GGUF file has, after llama.cpp's converter."""

from gguf import GGUFWriter

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
PRE_BY_PATTERN = {
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*": "llama-bpe",
    r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*": "qwen2",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}": "gpt-4o",
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|": "tekken",
    r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+": "deepseek-v3",
}


def pre_tokenizer(spec):
    steps = spec["pre_tokenizer"] or {"type": "none"}
    steps = steps.get("pretokenizers", [steps])
    if all(step["type"] != "ByteLevel" for step in steps):
        return "default"  # SentencePiece
    if steps[0]["type"] == "ByteLevel":
        return "gpt-2"
    if steps[0]["type"] == "Digits":
        return "smollm"
    pattern = steps[-2]["pattern"]["Regex"].replace("\r", r"\r").replace("\n", r"\n")
    return next(pre for part, pre in PRE_BY_PATTERN.items() if part in pattern)


def tokens_of(spec, sentence_piece):
    vocab = spec["model"]["vocab"]
    added = {t["id"]: t for t in spec["added_tokens"]}
    texts = {i: t for t, i in vocab.items()} | {i: t["content"] for i, t in added.items()}
    tokens, types = [], []
    for i in range(max(texts) + 1):
        text = texts.get(i, f"[PAD{i}]")
        kind = NORMAL if i in texts else UNUSED
        if text == spec["model"].get("unk_token"):
            kind = UNKNOWN
        elif i in added:
            kind = CONTROL if added[i]["special"] else USER_DEFINED
            if kind == USER_DEFINED and sentence_piece:
                text = text.replace("▁", " ")
        elif sentence_piece and len(text) == 6 and text.startswith("<0x"):
            kind = BYTE
        tokens.append(text)
        types.append(kind)
    return tokens, types


def scores_of(merges, tokens):
    """-rank of the first merge that makes the token: the order in which SentencePiece learned it."""
    rank = {}
    for left, right in merges:
        rank.setdefault(left + right, len(rank))
    return [-float(rank.get(t, len(rank))) for t in tokens]


def write_gguf(spec, path):
    """Writes the file and returns its pre-tokenizer."""
    pre = pre_tokenizer(spec)
    sentence_piece = pre == "default"
    tokens, types = tokens_of(spec, sentence_piece)
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in spec["model"]["merges"]]
    writer = GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama" if sentence_piece else "gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([t.encode() for t in tokens])
    writer.add_token_types(types)
    if sentence_piece:
        writer.add_token_scores(scores_of(merges, tokens))
        normalizer = spec["normalizer"]
        steps = normalizer.get("normalizers", [normalizer])
        writer.add_add_space_prefix(any(step["type"] == "Prepend" for step in steps))
    else:
        writer.add_token_merges([f"{left} {right}" for left, right in merges])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return pre
