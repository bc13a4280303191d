#!/usr/bin/env python3
"""Records what transformers gives in float32 for the dequantised weights of a llama GGUF file with
SmolLM2's vocabulary, for `baton bench quality`.

  pip install gguf==0.19.0 transformers==5.24.0 torch==2.15.0
  llama-quantize --allow-requantize models/smollm2-135m-instruct-q4_1.gguf q4_k_m.gguf Q4_K_M
  tests/data/reference/record_llama.py q4_k_m.gguf q4_k_m.json
  build/release/bin/baton bench quality --model q4_k_m.gguf --reference q4_k_m.json

The prompts are those of smollm2_f32.json.xz beside this script, 3 to 2,500 tokens, and so is the
format: per prompt 64 greedy tokens with the margin and the 64 most likely tokens of each step.
docs/performance.md has what came out.
"""
import json
import lzma
import pathlib
import sys

import gguf
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

STEPS = 64
TOP = 64
SHORT = 64  # tokens; such prompts are run together
KEYS = ("embedding_length", "block_count", "feed_forward_length", "attention.head_count",
        "attention.head_count_kv", "rope.freq_base", "context_length",
        "attention.layer_norm_rms_epsilon")


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


def load(path):
    """The model in float32, its weights those of the file after dequantisation, and nothing rounded."""
    reader = gguf.GGUFReader(path)
    of = {key: reader.fields[f"llama.{key}"].contents() for key in KEYS}
    state = {}
    for tensor in reader.tensors:
        exact = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        heads = {"attn_q": of["attention.head_count"],
                 "attn_k": of["attention.head_count_kv"]}.get(tensor.name.split(".")[-2], 0)
        state[hf_name(tensor.name)] = torch.from_numpy(
            np.ascontiguousarray(unpermute(exact, heads) if heads else exact))
    config = LlamaConfig(
        vocab_size=len(state["model.embed_tokens.weight"]), hidden_size=of["embedding_length"],
        num_hidden_layers=of["block_count"], intermediate_size=of["feed_forward_length"],
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
    return model.float().eval()


def record(model, prompts):
    """One item a prompt; they run together, the shorter ones with masked padding on their left."""
    longest = max(map(len, prompts))
    fed = torch.tensor([[0] * (longest - len(ids)) + ids for ids in prompts])
    mask = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in prompts])
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    items = [{"prompt_ids": ids, "greedy_ids": [], "margin": [], "top_ids": [], "top_logprobs": []}
             for ids in prompts]
    cache = None
    for _ in range(STEPS):
        with torch.no_grad():
            out = model(fed, attention_mask=mask, position_ids=positions, cache=cache,
                        use_cache=True, logits_to_keep=1)
        cache, logits = out.cache, out.logits[:, -1]
        top = torch.topk(logits, TOP)
        logprobs = torch.log_softmax(logits.double(), 1).gather(1, top.indices)
        for i, item in enumerate(items):
            item["greedy_ids"].append(int(top.indices[i, 0]))
            item["margin"].append(float(top.values[i, 0] - top.values[i, 1]))
            item["top_ids"].append(top.indices[i].tolist())
            item["top_logprobs"].append(logprobs[i].tolist())
        fed = top.indices[:, :1]
        mask = torch.cat([mask, torch.ones_like(fed)], 1)
        positions = positions[:, -1:] + 1
    return items


def main():
    torch.set_num_threads(2)
    source, target = sys.argv[1:3]
    with lzma.open(pathlib.Path(__file__).parent / "smollm2_f32.json.xz") as file:
        prompts = [item["prompt_ids"] for item in json.load(file)["items"]]
    model = load(source)
    short = [ids for ids in prompts if len(ids) <= SHORT]
    items = record(model, short)
    for ids in prompts:
        if len(ids) > SHORT:
            items += record(model, [ids])
    note = "transformers in float32, weights dequantised; see tests/data/reference/record_llama.py"
    pathlib.Path(target).write_text(json.dumps({"made_with": note, "items": items}))
    print(f"{target}: {len(items)} prompts, {len(items) * STEPS} tokens")


if __name__ == "__main__":
    main()
