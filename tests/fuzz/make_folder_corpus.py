#!/usr/bin/env python3
"""Writes tests/fuzz/corpus/model_folder, small model folders that load and mutations of them, and
tests/fuzz/corpus/gguf_parts, a small GGUF file in two parts and mutations of it.

Needs nothing but Python. Deterministic: the same files every time.
"""
import json
import pathlib
import random
import struct

CONFIG = {"hidden_size": 8, "intermediate_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2,
          "num_key_value_heads": 1, "head_dim": 4, "vocab_size": 4, "max_position_embeddings": 32,
          "rms_norm_eps": 1e-5, "tie_word_embeddings": True}
KINDS = {
    "llama": {"rope_theta": 10000.0, "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16}},
    "mistral": {"sliding_window": 4, "rope_theta": 1e6},
    "qwen2": {"use_sliding_window": False, "rope_parameters": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8}},
    "qwen3": {"layer_types": ["full_attention"]},
    "gemma3_text": {"sliding_window": 4, "sliding_window_pattern": 2, "query_pre_attn_scalar": 4,
                    "layer_types": ["sliding_attention"], "rope_parameters": {
                        "full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1e6},
                        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}},
}


def tensors_of(kind):
    layer = "model.layers.0."
    out = {"model.embed_tokens.weight": [4, 8], "model.norm.weight": [8],
           layer + "self_attn.q_proj.weight": [8, 8], layer + "self_attn.k_proj.weight": [4, 8],
           layer + "self_attn.v_proj.weight": [4, 8], layer + "self_attn.o_proj.weight": [8, 8],
           layer + "mlp.gate_proj.weight": [4, 8], layer + "mlp.up_proj.weight": [4, 8],
           layer + "mlp.down_proj.weight": [8, 4], layer + "input_layernorm.weight": [8],
           layer + "post_attention_layernorm.weight": [8]}
    if kind == "qwen2":
        out |= {layer + f"self_attn.{p}_proj.bias": [8 if p == "q" else 4] for p in "qkv"}
    if kind in ("qwen3", "gemma3_text"):
        out |= {layer + f"self_attn.{p}_norm.weight": [4] for p in "qk"}
    if kind == "gemma3_text":
        out |= {layer + f"{p}_feedforward_layernorm.weight": [8] for p in ("pre", "post")}
    return out


def folder(kind, dtype):
    header, data, size = {"__metadata__": {"format": "pt"}}, b"", {"F32": 4}.get(dtype, 2)
    for name, shape in tensors_of(kind).items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + count * size]}
        data += bytes((i * 7) % 60 for i in range(count * size))
    config = json.dumps({"model_type": kind, **CONFIG, **KINDS[kind]}).encode()
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<I", len(config)) + config + struct.pack("<Q", len(text)) + text + data


def gguf_part(number, count, tensors, metadata):
    def text(value):
        return struct.pack("<Q", len(value)) + value

    keys = [(b"split.no", 2, struct.pack("<H", number)),
            (b"split.count", 2, struct.pack("<H", count)),
            (b"split.tensors.count", 5, struct.pack("<i", 2)), *metadata]
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    out += b"".join(text(key) + struct.pack("<I", kind) + value for key, kind, value in keys)
    for name in tensors:
        out += text(name) + struct.pack("<IQIQ", 1, 8, 0, 0)
    return out + bytes(-len(out) % 32) + bytes(32)


def mutations(base, seed, count):
    rng = random.Random(seed)
    for _ in range(count):
        data = bytearray(base)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(min(len(data), 1500))] = rng.choice([0, 0x22, 0x2D, 0x39, 0x7F, 0xFF])
        yield bytes(data)
    yield base[: rng.randrange(8, len(base))]


def write(where, seeds):
    where.mkdir(parents=True, exist_ok=True)
    for name, data in seeds.items():
        (where / name).write_bytes(data)


def main():
    corpus = pathlib.Path(__file__).parent / "corpus"
    folders = {}
    for index, kind in enumerate(KINDS):
        base = folder(kind, ["F16", "BF16", "F32"][index % 3])
        folders[kind] = base
        folders |= {f"{kind}_{i}": data for i, data in enumerate(mutations(base, index, 3))}
    write(corpus / "model_folder", folders)
    architecture = (b"general.architecture", 8, struct.pack("<Q", 5) + b"llama")
    first, second = gguf_part(0, 2, [b"a"], [architecture]), gguf_part(1, 2, [b"b"], [])
    base = struct.pack("<I", len(first)) + first + struct.pack("<I", len(second)) + second
    write(corpus / "gguf_parts",
          {"two": base} | {f"two_{i}": data for i, data in enumerate(mutations(base, 9, 6))})


if __name__ == "__main__":
    main()
