#!/usr/bin/env python3
"""Writes a llama GGUF file again in another tensor type, and what transformers gives in float32 for
its dequantised weights, for `baton bench quality`.

  pip install gguf==0.19.0 transformers==5.24.0 torch==2.15.0
  tests/data/reference/requantise.py models/smollm2-135m-instruct-q4_1.gguf Q5_1 OUT_FOLDER

Types: F16, BF16, Q8_0, Q5_0, Q5_1, Q4_0, IQ4_NL, and Q4_K_M, in which rows that are no multiple of 256
fall back to Q5_0 and Q8_0 as llama.cpp's tool does it. K types and IQ4_NL are quantised by rounding
to the range of each block, which is coarser than that tool.
"""
import json
import pathlib
import sys

import gguf
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

Q = gguf.GGMLQuantizationType
IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)
TEXTS = ["The capital of France is", "def fibonacci(n):", "Once upon a time, in a small village,",
         "The three laws of thermodynamics say that"]
STEPS = 24
TOP = 64


def halves(values):
    return np.ascontiguousarray(values.astype(np.float16)).view(np.uint8).reshape(-1, 2)


def q4_k(rows):
    x = rows.reshape(-1, 8, 32)
    low = np.minimum(x.min(2), 0)
    scale, offset = (x.max(2) - low) / 15, -low
    d = (scale.max(1) / 63).astype(np.float16).astype(np.float32)
    m = (offset.max(1) / 63).astype(np.float16).astype(np.float32)
    sc = np.clip(np.round(scale / np.maximum(d, 1e-9)[:, None]), 0, 63).astype(np.uint8)
    mn = np.clip(np.round(offset / np.maximum(m, 1e-9)[:, None]), 0, 63).astype(np.uint8)
    step = np.maximum(d[:, None] * sc, 1e-9)[:, :, None]
    q = np.clip(np.round((x + (m[:, None] * mn)[:, :, None]) / step), 0, 15).astype(np.uint8)
    s = np.zeros((len(x), 12), np.uint8)
    s[:, 0:4] = sc[:, 0:4] | (sc[:, 4:8] >> 4) << 6
    s[:, 4:8] = mn[:, 0:4] | (mn[:, 4:8] >> 4) << 6
    s[:, 8:12] = (sc[:, 4:8] & 15) | (mn[:, 4:8] & 15) << 4
    qs = (q[:, 0::2] | q[:, 1::2] << 4).reshape(len(x), 128)
    return np.concatenate([halves(d), halves(m), s, qs], 1).reshape(len(rows), -1)


def q6_k(rows):
    x = rows.reshape(-1, 16, 16)
    scale = np.abs(x).max(2) / 31
    d = (scale.max(1) / 127).astype(np.float16).astype(np.float32)
    sc = np.clip(np.round(scale / np.maximum(d, 1e-9)[:, None]), 0, 127).astype(np.int8)
    step = np.maximum(d[:, None] * sc, 1e-9)[:, :, None]
    q = (np.clip(np.round(x / step), -32, 31) + 32).astype(np.uint8).reshape(-1, 2, 4, 32)
    ql = np.concatenate([(q[:, :, 0:2] & 15) | (q[:, :, 2:4] & 15) << 4], 1).reshape(len(x), 128)
    h = q >> 4
    qh = (h[:, :, 0] | h[:, :, 1] << 2 | h[:, :, 2] << 4 | h[:, :, 3] << 6).reshape(len(x), 64)
    return np.concatenate([ql, qh, sc.view(np.uint8), halves(d)], 1).reshape(len(rows), -1)


def iq4_nl(rows):
    x = rows.reshape(-1, 32)
    peak = x[np.arange(len(x)), np.abs(x).argmax(1)]
    d = (peak / -127).astype(np.float16).astype(np.float32)
    q = np.abs(x[:, :, None] / np.where(d == 0, 1, d)[:, None, None] - IQ4).argmin(2).astype(np.uint8)
    return np.concatenate([halves(d), q[:, :16] | q[:, 16:] << 4], 1).reshape(len(rows), -1)


OWN = {Q.Q4_K: q4_k, Q.Q6_K: q6_k, Q.IQ4_NL: iq4_nl}


def type_for(name, columns, wanted):
    if wanted != "Q4_K_M":
        return Q[wanted]
    if "token_embd" in name:
        return Q.Q6_K if columns % 256 == 0 else Q.Q8_0
    if "attn_v" in name or "ffn_down" in name:
        return Q.Q6_K if columns % 256 == 0 else Q.Q8_0
    return Q.Q4_K if columns % 256 == 0 else Q.Q5_0


def unpermute(weight, heads):
    shape = weight.shape
    return weight.reshape(heads, shape[0] // heads // 2, 2, shape[1]).swapaxes(1, 2).reshape(shape)


def hf_name(name):
    parts = name.removesuffix(".weight").split(".")
    if parts[0] != "blk":
        return {"token_embd": "model.embed_tokens", "output_norm": "model.norm",
                "output": "lm_head"}[parts[0]] + ".weight"
    rest = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
            "attn_output": "self_attn.o_proj"}.get(parts[2])
    if rest is None:
        rest = (f"self_attn.{parts[2][-1]}_proj" if parts[2].startswith("attn")
                else f"mlp.{parts[2][4:]}_proj")
    return f"model.layers.{parts[1]}.{rest}.weight"


def main():
    torch.set_num_threads(2)
    source, wanted, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    reader = gguf.GGUFReader(source)
    name = f"smollm2-{wanted.lower()}"
    writer = gguf.GGUFWriter(folder / f"{name}.gguf", "llama")
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            kind = field.types[0]
            writer.add_key_value(field.name, field.contents(), kind,
                                 field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    of = {key: reader.fields[f"llama.{key}"].contents() for key in (
        "embedding_length", "block_count", "feed_forward_length", "attention.head_count",
        "attention.head_count_kv", "rope.freq_base", "context_length",
        "attention.layer_norm_rms_epsilon")}
    state = {}
    for tensor in reader.tensors:
        exact = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        kind = tensor.tensor_type
        raw = tensor.data
        if exact.ndim == 2:
            kind = type_for(tensor.name, exact.shape[1], wanted)
            raw = OWN[kind](exact) if kind in OWN else gguf.quantize(exact, kind)
            exact = gguf.dequantize(raw, kind).astype(np.float32)
        writer.add_tensor(tensor.name, raw, raw_dtype=kind)
        heads = {"attn_q": of["attention.head_count"],
                 "attn_k": of["attention.head_count_kv"]}.get(tensor.name.split(".")[-2], 0)
        state[hf_name(tensor.name)] = torch.from_numpy(
            np.ascontiguousarray(unpermute(exact, heads) if heads else exact))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    vocab = len(state["model.embed_tokens.weight"])
    config = LlamaConfig(
        vocab_size=vocab, hidden_size=of["embedding_length"], num_hidden_layers=of["block_count"],
        intermediate_size=of["feed_forward_length"],
        num_attention_heads=of["attention.head_count"],
        num_key_value_heads=of["attention.head_count_kv"],
        max_position_embeddings=of["context_length"],
        rms_norm_eps=of["attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": of["rope.freq_base"]},
        tie_word_embeddings="lm_head.weight" not in state)
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    state.setdefault("lm_head.weight", state["model.embed_tokens.weight"])
    model.load_state_dict(state, strict=True, assign=True)
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    model = model.float().eval()
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    words = {token: i for i, token in enumerate(tokens)}
    items = []
    for text in TEXTS:
        ids, cache = [words[p] for p in longest_tokens(text.replace(" ", "Ġ"), words)], None
        item = {"prompt_ids": ids, "greedy_ids": [], "margin": [], "top_ids": [],
                "top_logprobs": []}
        feed = torch.tensor([ids])
        for _ in range(STEPS):
            with torch.no_grad():
                out = model(feed, past_key_values=cache)
            cache, logits = out.past_key_values, out.logits[0, -1]
            top = torch.topk(logits, TOP)
            item["greedy_ids"].append(int(top.indices[0]))
            item["margin"].append(float(top.values[0] - top.values[1]))
            item["top_ids"].append(top.indices.tolist())
            item["top_logprobs"].append(torch.log_softmax(logits, 0)[top.indices].tolist())
            feed = top.indices[:1][None]
        items.append(item)
    (folder / f"{name}.json").write_text(json.dumps({"items": items}))
    print(f"{name}: written")


def longest_tokens(text, words):
    """Any tokens that spell the text will do: both sides are fed the same ids."""
    out = []
    while text:
        size = next(n for n in range(len(text), 0, -1) if text[:n] in words)
        out.append(text[:size])
        text = text[size:]
    return out


if __name__ == "__main__":
    main()
