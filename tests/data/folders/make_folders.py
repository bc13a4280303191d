#!/usr/bin/env python3
"""Writes the tiny model folders of this folder, the GGUF file of the same weights beside each, and
the logits that transformers gives for them.

  pip install gguf==0.19.0 transformers==5.24.0 torch==2.15.0 safetensors
  tests/data/folders/make_folders.py

NAME/ is what save_pretrained writes, NAME.gguf what a converter makes of it (q and k of llama and
mistral permuted, norms of gemma with 1 added), NAME.logits as in tests/data/models. The same files
come out every time with the same package versions.
"""
import pathlib
import shutil
import struct

import gguf
import numpy as np
import torch
from transformers import (AutoModelForCausalLM, Gemma3TextConfig, LlamaConfig, MistralConfig,
                          Qwen2Config, Qwen3Config)

SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=36, max_position_embeddings=256,
             rms_norm_eps=1e-5, pad_token_id=0)
# Name, config, dtype, largest shard.
MODELS = [
    ("llama_sharded", LlamaConfig(
        **SIZES, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}),
     torch.float16, "12KB"),
    ("mistral_window", MistralConfig(
        **SIZES, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=1, head_dim=16,
        sliding_window=40, rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
     torch.bfloat16, "1GB"),
    ("qwen2", Qwen2Config(
        **SIZES, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        tie_word_embeddings=True), torch.float32, "1GB"),
    ("qwen3", Qwen3Config(
        **SIZES, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        tie_word_embeddings=True), torch.bfloat16, "1GB"),
    ("gemma3", Gemma3TextConfig(
        **SIZES, num_hidden_layers=6, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
        query_pre_attn_scalar=32, sliding_window=32,
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}),
     torch.bfloat16, "1GB"),
]
NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
}
PROMPTS = [(1, "all"), (19, "all"), (70, "last"), (200, "last")]


def randomise(model, rng):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):
                low = -0.5 if "gemma" in type(model).__name__.lower() else 0.5
                values = rng.uniform(low, low + 1.0, parameter.shape)
            elif name.endswith("bias"):
                values = rng.normal(0, 0.5, parameter.shape)
            else:
                gain = 3.0 if "embed" in name or "lm_head" in name else 1.5
                values = rng.normal(0, gain / np.sqrt(parameter.shape[-1]), parameter.shape)
            parameter.copy_(torch.from_numpy(values.astype(np.float32)))


def gguf_name(name: str, gemma: bool) -> str:
    stem, kind = name.rsplit(".", 1)
    if stem in NAMES:
        return f"{NAMES[stem]}.{kind}"
    _, _, layer, rest = stem.split(".", 3)
    if rest == "post_attention_layernorm":
        return f"blk.{layer}.{'post_attention_norm' if gemma else 'ffn_norm'}.{kind}"
    return f"blk.{layer}.{NAMES[rest]}.{kind}"


def permute(weight, heads: int):
    shape = weight.shape
    return weight.reshape(heads, 2, shape[0] // heads // 2, shape[1]).swapaxes(1, 2).reshape(shape)


def write_gguf(config, model, path: pathlib.Path):
    kind = config.model_type
    arch = {"mistral": "llama", "gemma3_text": "gemma3"}.get(kind, kind)
    w = gguf.GGUFWriter(path, arch)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    w.add_context_length(config.max_position_embeddings)
    w.add_embedding_length(config.hidden_size)
    w.add_block_count(config.num_hidden_layers)
    w.add_feed_forward_length(config.intermediate_size)
    w.add_head_count(config.num_attention_heads)
    w.add_head_count_kv(config.num_key_value_heads)
    w.add_key_length(head_dim)
    w.add_value_length(head_dim)
    w.add_layer_norm_rms_eps(config.rms_norm_eps)
    rope = config.rope_parameters
    full = rope.get("full_attention", rope)
    w.add_rope_dimension_count(head_dim)
    w.add_rope_freq_base(full["rope_theta"])
    if full["rope_type"] == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(full["factor"])
    if kind in ("mistral", "gemma3_text"):
        w.add_sliding_window(config.sliding_window)
    if kind == "gemma3_text":
        w.add_float32("gemma3.rope.freq_base_swa", rope["sliding_attention"]["rope_theta"])
        w.add_float32("gemma3.attention.scale", config.query_pre_attn_scalar ** -0.5)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = tensor.to(torch.float32).numpy()
        if kind in ("llama", "mistral") and name.endswith(("q_proj.weight", "k_proj.weight")):
            q = name.endswith("q_proj.weight")
            values = permute(values, config.num_attention_heads if q else config.num_key_value_heads)
        if kind == "gemma3_text" and name.endswith("norm.weight"):
            values = values + 1.0
        types = gguf.GGMLQuantizationType
        of = {torch.float16: types.F16, torch.bfloat16: types.BF16, torch.float32: types.F32}
        quant = types.F32 if values.ndim == 1 else of[tensor.dtype]
        raw = gguf.quantize(np.ascontiguousarray(values), quant)
        w.add_tensor(gguf_name(name, kind == "gemma3_text"), raw, raw_dtype=quant)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def write_logits(name, model, rng, path: pathlib.Path):
    vocab = model.config.vocab_size
    out = struct.pack("<4sIII", b"BLGT", 1, vocab, len(PROMPTS))
    for length, rows in PROMPTS:
        tokens = rng.integers(0, vocab, length)
        with torch.no_grad():
            logits = model(torch.from_numpy(tokens[None])).logits[0].numpy()
        positions = range(length) if rows == "all" else [length - 1]
        out += struct.pack("<II", length, len(positions)) + tokens.astype("<i4").tobytes()
        for position in positions:
            out += struct.pack("<I", position) + logits[position].astype("<f4").tobytes()
    print(f"{name}: std of the last logits {logits[-1].std():.2f}")
    path.write_bytes(out)


def main():
    torch.set_num_threads(1)
    here = pathlib.Path(__file__).parent
    for index, (name, config, dtype, shard) in enumerate(MODELS):
        rng = np.random.default_rng(2000 + index)
        config._attn_implementation = "eager"
        model = AutoModelForCausalLM.from_config(config).to(torch.float32)
        randomise(model, rng)
        model = model.to(dtype).eval()
        folder = here / name
        shutil.rmtree(folder, ignore_errors=True)
        model.save_pretrained(folder, max_shard_size=shard)
        (folder / "generation_config.json").unlink(missing_ok=True)
        write_gguf(config, model, here / f"{name}.gguf")
        write_logits(name, model.to(torch.float32), rng, here / f"{name}.logits")


if __name__ == "__main__":
    main()
