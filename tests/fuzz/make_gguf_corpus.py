#!/usr/bin/env python3
"""Writes tests/fuzz/corpus/gguf: a small valid file of each tensor type and seeded mutations of one;
and tests/fuzz/corpus/description: small llama models that load, and mutations of one.

Needs the packages gguf and numpy. Deterministic: the same files every time.
"""
import pathlib
import random
import struct

import gguf
import numpy as np

TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]


def valid_file(path: pathlib.Path, type_name: str) -> bytes:
    quant = gguf.GGMLQuantizationType[type_name]
    block, size = gguf.GGML_QUANT_SIZES[quant]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_bool("tokenizer.ggml.add_bos_token", False)
    writer.add_token_list(["a", "b", "<|end|>"])
    writer.add_token_types([1, 1, 3])
    writer.add_uint64("llama.parameter_count", 1 << 33)
    raw = np.arange(2 * max(block, 4) // block * size, dtype=np.uint32).astype(np.uint8)
    writer.add_tensor("blk.0.attn_q.weight", raw.reshape(2, -1), raw_dtype=quant)
    writer.add_tensor("output_norm.weight", np.ones(4, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def mutations(base: bytes, seed: int):
    rng = random.Random(seed)
    interesting = [0, 1, 0x7F, 0x80, 0xFF]
    for i in range(12):
        data = bytearray(base)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.choice(interesting)
        yield f"bytes_{i:02}", bytes(data)
    for i in range(4):
        yield f"cut_{i}", base[: rng.randrange(24, len(base))]
    for name, offset, value in [
        ("version_2", 4, struct.pack("<I", 2)),
        ("big_endian", 4, struct.pack(">I", 3)),
        ("tensors_huge", 8, struct.pack("<q", 1 << 60)),
        ("tensors_negative", 8, struct.pack("<q", -1)),
        ("entries_huge", 16, struct.pack("<q", 1 << 60)),
        ("first_key_huge", 24, struct.pack("<Q", (1 << 64) - 1)),
    ]:
        yield name, base[:offset] + value + base[offset + len(value) :]
    yield "lfs_pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    yield "html", b"<!DOCTYPE html><html></html>"
    yield "zip", b"PK\x03\x04" + bytes(16)
    yield "safetensors", struct.pack("<Q", 20) + b'{"__metadata__":{}}  '


def llama_file(path: pathlib.Path, type_name: str, tied: bool) -> bytes:
    """Two layers would say no more than one: hidden 32, 2 heads of 16 (1 KV head), ffn 64, 18 tokens."""
    quant = gguf.GGMLQuantizationType[type_name]
    block, size = gguf.GGML_QUANT_SIZES[quant]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(8)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    shapes = {"token_embd": (18, 32), "output": (18, 32), "blk.0.attn_q": (32, 32)}
    shapes |= {"blk.0.attn_k": (16, 32), "blk.0.attn_v": (16, 32), "blk.0.attn_output": (32, 32)}
    shapes |= {"blk.0.ffn_gate": (64, 32), "blk.0.ffn_up": (64, 32), "blk.0.ffn_down": (32, 64)}
    if tied:
        del shapes["output"]
    for name, (rows, columns) in shapes.items():
        raw = np.arange(rows * columns // block * size, dtype=np.uint32).astype(np.uint8)
        writer.add_tensor(name + ".weight", raw.reshape(rows, -1), raw_dtype=quant)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(name + ".weight", np.ones(32, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def other_file(path: pathlib.Path, arch: str) -> bytes:
    """The same shapes in another architecture, with all that it can have beside."""
    writer = gguf.GGUFWriter(path, arch)
    writer.add_block_count(1)
    writer.add_context_length(8)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    vectors = {"output_norm.weight": 32, "blk.0.attn_norm.weight": 32, "rope_freqs.weight": 8}
    if arch == "qwen2":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(4.0)
        writer.add_rope_scaling_orig_ctx_len(4)
        vectors |= {"blk.0.attn_q.bias": 32, "blk.0.attn_k.bias": 16, "blk.0.attn_v.bias": 16}
    else:
        writer.add_sliding_window(4)
        writer.add_sliding_window_pattern([True])
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(8.0)
        vectors |= {"blk.0.attn_q_norm.weight": 16, "blk.0.attn_k_norm.weight": 16}
        vectors |= {"blk.0.post_attention_norm.weight": 32, "blk.0.post_ffw_norm.weight": 32}
    matrices = {"token_embd": (18, 32), "blk.0.attn_q": (32, 32), "blk.0.attn_k": (16, 32)}
    matrices |= {"blk.0.attn_v": (16, 32), "blk.0.attn_output": (32, 32), "blk.0.ffn_gate": (64, 32)}
    matrices |= {"blk.0.ffn_up": (64, 32), "blk.0.ffn_down": (32, 64)}
    for name, shape in matrices.items():
        writer.add_tensor(name + ".weight", np.ones(shape, np.float16))
    vectors["blk.0.ffn_norm.weight"] = 32  # the last one: see header_mutations
    for name, size in vectors.items():
        writer.add_tensor(name, np.ones(size, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def header_mutations(base: bytes, seed: int, count: int = 12):
    """Changes of the header only: data bytes say nothing to the description."""
    rng = random.Random(seed)
    end = base.rindex(b"ffn_norm.weight") + 60
    for i in range(count):
        data = bytearray(base)
        data[rng.randrange(24, end)] = rng.choice([0, 1, 2, 3, 0x10, 0x7F, 0xFF])
        yield f"bytes_{i:02}", bytes(data)


def write_description_corpus(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for type_name in ("F16", "BF16", "Q4_0", "Q4_1", "Q8_0"):
        base = llama_file(folder / f"valid_{type_name.lower()}", type_name, type_name != "Q4_1")
    for name, data in header_mutations(base, seed=2):
        (folder / name).write_bytes(data)
    for seed, arch in enumerate(("qwen2", "gemma3"), start=3):
        base = other_file(folder / f"valid_{arch}", arch)
        for name, data in header_mutations(base, seed, count=4):
            (folder / f"{arch}_{name}").write_bytes(data)


def main() -> None:
    write_description_corpus(pathlib.Path(__file__).parent / "corpus" / "description")
    folder = pathlib.Path(__file__).parent / "corpus" / "gguf"
    folder.mkdir(parents=True, exist_ok=True)
    for type_name in TYPES:
        base = valid_file(folder / f"valid_{type_name.lower()}", type_name)
    for name, data in mutations(base, seed=1):
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
