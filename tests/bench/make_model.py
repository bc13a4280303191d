#!/usr/bin/env python3
"""Writes a GGUF of Llama 3.2 1B's shape with random weights: a model that no cache holds, for speed.

  pip install numpy gguf==0.19.0
  python3 tests/bench/make_model.py --type q4_k llama1b-q4_k.gguf
  python3 tests/bench/make_model.py --type q8_0 llama1b-q8_0.gguf

All matrices are of the one type, norms F32, the head is the embedding. The blocks are drawn, not
quantised, so it takes seconds; their scales give weights of a size at which activations and logits
stay as large as those of a trained model. What it answers means nothing. The vocabulary is made, too:
128,000 byte-level tokens of one to three bytes and 256 special ones. The same seed gives the same file.
"""
import argparse
import dataclasses

import gguf
import numpy as np

SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>"]
SPECIALS = 256
BYTES = 256
TYPES = {"q4_k": gguf.GGMLQuantizationType.Q4_K, "q8_0": gguf.GGMLQuantizationType.Q8_0}
CHUNK_BLOCKS = 1 << 20  # that are drawn at once


@dataclasses.dataclass(frozen=True)
class Shape:
    layers: int
    vocab: int
    context: int
    hidden: int = 2048
    ffn: int = 8192
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 64
    rope_base: float = 500000.0


def byte_letters():
    """The character that stands for each byte in byte-level vocabularies."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in shown}
    hidden = [byte for byte in range(BYTES) if byte not in letters]
    letters.update({byte: chr(BYTES + i) for i, byte in enumerate(hidden)})
    return [letters[byte] for byte in range(BYTES)]


def vocabulary(size):
    """Tokens, their types and merges: the bytes, pairs of them, pairs with a third, special ones."""
    letters = byte_letters()
    tokens, merges = list(letters), []
    ordinary = size - SPECIALS
    for longer in (0, BYTES):  # first a byte and a byte, then a pair and a byte
        for left in range(longer, len(tokens)):
            if len(tokens) >= ordinary:
                break
            for letter in letters[: ordinary - len(tokens)]:
                merges.append(f"{tokens[left]} {letter}")
                tokens.append(tokens[left] + letter)
    types = [gguf.TokenType.NORMAL] * len(tokens) + [gguf.TokenType.CONTROL] * SPECIALS
    reserved = [f"<|reserved_special_token_{i}|>" for i in range(SPECIALS - len(SPECIAL))]
    return tokens + SPECIAL + reserved, types, merges


def scale_bytes(rng, mean, count):
    values = (mean * rng.uniform(0.5, 1.5, count)).astype(np.float16)
    return values.view(np.uint8).reshape(-1, 2)


def random_blocks(rng, kind, count, deviation):
    """[count, bytes of a block], of weights with about that standard deviation and mean zero."""
    raw = rng.integers(0, 256, (count, gguf.GGML_QUANT_SIZES[kind][1]), dtype=np.uint8)
    if kind == gguf.GGMLQuantizationType.Q8_0:
        codes = raw[:, 2:]
        codes[codes == 128] = 0  # -128 is no code of a quantiser
        raw[:, 0:2] = scale_bytes(rng, deviation / 76.4, count)
    else:
        # d * scale * code - dmin * least, scale and least of 6 bits: the means cancel where
        # dmin is d times the mean of the codes.
        d = deviation / (36.5 * 15 * 0.55)
        raw[:, 0:2] = scale_bytes(rng, d, count)
        raw[:, 2:4] = scale_bytes(rng, d * 15 / 2, count)
    return raw


def matrix(rng, kind, rows, columns, gain):
    block, size = gguf.GGML_QUANT_SIZES[kind]
    count = rows * columns // block
    raw = np.empty((count, size), dtype=np.uint8)
    for first in range(0, count, CHUNK_BLOCKS):
        part = raw[first : first + CHUNK_BLOCKS]
        part[:] = random_blocks(rng, kind, len(part), gain / np.sqrt(columns))
    return raw.reshape(rows, -1)


def tensors(shape, kind, rng):
    """(name, data, type) of each, in the order of the file."""
    s = shape
    query, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
    f32 = gguf.GGMLQuantizationType.F32

    def norm(name):
        return name + ".weight", rng.uniform(0.5, 1.5, s.hidden).astype(np.float32), f32

    yield "token_embd.weight", matrix(rng, kind, s.vocab, s.hidden, 3.0), kind
    yield norm("output_norm")
    for i in range(s.layers):
        yield norm(f"blk.{i}.attn_norm")
        yield norm(f"blk.{i}.ffn_norm")
        for name, rows, columns in [
            ("attn_q", query, s.hidden),
            ("attn_k", kv, s.hidden),
            ("attn_v", kv, s.hidden),
            ("attn_output", s.hidden, query),
            ("ffn_gate", s.ffn, s.hidden),
            ("ffn_up", s.ffn, s.hidden),
            ("ffn_down", s.hidden, s.ffn),
        ]:
            yield f"blk.{i}.{name}.weight", matrix(rng, kind, rows, columns, 1.0), kind


def write(path, shape, kind, seed):
    s = shape
    tokens, types, merges = vocabulary(s.vocab)
    first_special = s.vocab - SPECIALS
    w = gguf.GGUFWriter(path, "llama")
    w.add_name("random Llama 1B")
    w.add_type("model")
    w.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0 if kind == TYPES["q8_0"]
                    else gguf.LlamaFileType.MOSTLY_Q4_K_S)
    w.add_context_length(s.context)
    w.add_embedding_length(s.hidden)
    w.add_block_count(s.layers)
    w.add_feed_forward_length(s.ffn)
    w.add_head_count(s.heads)
    w.add_head_count_kv(s.kv_heads)
    w.add_rope_dimension_count(s.head_dim)
    w.add_rope_freq_base(s.rope_base)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_vocab_size(s.vocab)
    w.add_quantization_version(2)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("llama-bpe")
    w.add_token_list(tokens)
    w.add_token_types(types)
    w.add_token_merges(merges)
    w.add_bos_token_id(first_special)
    w.add_eos_token_id(first_special + 1)
    w.add_add_bos_token(True)
    for name, data, of_type in tensors(s, kind, np.random.default_rng(seed)):
        w.add_tensor(name, data, raw_dtype=of_type)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="to be written")
    parser.add_argument("--type", choices=sorted(TYPES), required=True, help="of the matrices")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=128256, help=f"at least {BYTES + SPECIALS}")
    parser.add_argument("--context", type=int, default=32768)
    options = parser.parse_args()
    if options.layers < 1 or options.context < 1 or options.vocab < BYTES + SPECIALS:
        parser.error(f"--layers and --context are at least 1, --vocab {BYTES + SPECIALS}")
    write(options.file, Shape(options.layers, options.vocab, options.context), TYPES[options.type],
          options.seed)


if __name__ == "__main__":
    main()
