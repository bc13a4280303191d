"""Model files that are wrong in one way, for the messages about them. Only headers are written."""

import struct

F32, F16 = 0, 1
U32, FLOAT, STRING = 4, 6, 8


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def entry(key, kind, value):
    packed = {U32: lambda: struct.pack("<I", value), FLOAT: lambda: struct.pack("<f", value),
              STRING: lambda: text(value)}[kind]()
    return text(key) + struct.pack("<I", kind) + packed


def write(path, entries, tensors=()):
    """tensors: (name, dims, type); their data is a hole in the file."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries))
    out += b"".join(entry(*e) for e in entries)
    offset = 0
    for name, dims, kind in tensors:
        out += text(name) + struct.pack("<I", len(dims))
        out += b"".join(struct.pack("<Q", dim) for dim in dims) + struct.pack("<IQ", kind, offset)
        size = {F32: 4, F16: 2}[kind]
        for dim in dims:
            size *= dim
        offset += (size + 31) // 32 * 32
    with open(path, "wb") as file:
        file.write(out)
        file.truncate((len(out) + 31) // 32 * 32 + offset)


def write_large_llama(path, layers=80, hidden=8192, ffn=28672, heads=64, kv_heads=8, vocab=32000):
    """A llama of 70 billion parameters in F16: 140 GB of nothing."""
    head_dim = hidden // heads
    entries = [("general.architecture", STRING, "llama"), ("llama.block_count", U32, layers),
               ("llama.context_length", U32, 4096), ("llama.embedding_length", U32, hidden),
               ("llama.feed_forward_length", U32, ffn), ("llama.attention.head_count", U32, heads),
               ("llama.attention.head_count_kv", U32, kv_heads),
               ("llama.rope.dimension_count", U32, head_dim),
               ("llama.vocab_size", U32, vocab),
               ("llama.attention.layer_norm_rms_epsilon", FLOAT, 1e-5)]
    tensors = [("token_embd.weight", (hidden, vocab), F16), ("output_norm.weight", (hidden,), F32),
               ("output.weight", (hidden, vocab), F16)]
    for layer in range(layers):
        def add(name, *dims, kind=F16, layer=layer):
            tensors.append((f"blk.{layer}.{name}.weight", dims, kind))
        add("attn_norm", hidden, kind=F32)
        add("ffn_norm", hidden, kind=F32)
        add("attn_q", hidden, hidden)
        add("attn_k", hidden, kv_heads * head_dim)
        add("attn_v", hidden, kv_heads * head_dim)
        add("attn_output", hidden, hidden)
        add("ffn_gate", hidden, ffn)
        add("ffn_up", hidden, ffn)
        add("ffn_down", ffn, hidden)
    write(path, entries, tensors)
