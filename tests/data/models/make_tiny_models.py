#!/usr/bin/env python3
"""Writes the tiny random models of this folder and the logits that transformers gives for them.

  pip install gguf==0.19.0 transformers==5.24.0 tokenizers==0.23.3 torch==2.15.0
  tests/data/models/make_tiny_models.py

Each model is a NAME.gguf of the llama architecture with random weights and a real byte-level BPE
vocabulary, and a NAME.logits with the float32 logits of LlamaForCausalLM over the same dequantised
weights (format: tests/data/models/README.md). The same files come out every time with the same
package versions.
"""
import dataclasses
import json
import pathlib
import struct

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TEXT = """The prefill worker reads the prompt and the decode worker writes the answer. The cache of keys
and values is handed over like a baton: one runner brings it, the other takes it and runs on. What the
first one has seen the second one knows. When there is no room the first one waits, and the queue is
its memory. There are many workers, and each of them may stop at any time; then another one goes on
where it was, and the reader of the stream sees nothing of it. This is the point of the whole thing.
In the beginning was the word, and the word was a token, and the token had a number. 1 2 3 4 5 6 7 8 9
10 100 1000. Numbers are split into digits. user system assistant Hello! How are you? I'm fine, thanks.
It's what we've said; they'll see that you're right and she'd not know. def main(argc, argv): return 0
for (int i = 0; i < n; ++i) { sum += values[i]; } The sum of all values is the sum of their parts.
Der Läufer übergibt den Stab. Le relais passe d'un coureur à l'autre. Эстафета идёт дальше. 接力棒传给下一位。
"""


@dataclasses.dataclass(frozen=True)
class Variant:
    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied: bool
    types: dict  # tensor kind -> type; "*" = all others
    rope_base: float = 10000.0
    context: int = 512


VARIANTS = [
    Variant("tiny_f32", 48, 3, 3, 1, 16, 80, 320, True, {"*": "F32"}),
    Variant("tiny_f16", 48, 3, 3, 3, 16, 112, 313, False, {"*": "F16"}),
    Variant("tiny_bf16", 64, 2, 4, 2, 32, 100, 320, True, {"*": "BF16"}, rope_base=100000.0),
    Variant("tiny_q8_0", 96, 2, 9, 3, 32, 160, 320, True, {"*": "Q8_0"}),
    Variant("tiny_q4_1", 96, 3, 9, 3, 32, 160, 512, True, {"*": "Q4_1", "token_embd": "Q8_0"}, 100000.0),
    Variant("tiny_q4_0", 96, 3, 6, 2, 16, 224, 512, False,
            {"*": "Q4_0", "token_embd": "Q8_0", "output": "Q8_0"}),
    Variant("tiny_kmix", 256, 1, 8, 2, 32, 256, 320, True,
            {"*": "Q4_K", "attn_k": "Q5_K", "attn_v": "Q6_K", "attn_output": "Q5_K", "ffn_up": "Q5_K",
             "ffn_down": "Q6_K"}),
]  # fmt: skip

# Prompt lengths, and which rows of each are recorded.
PROMPTS = [(1, "all"), (19, "all"), (70, "last"), (300, "last")]


def train_vocabulary(size: int):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=SPECIAL,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([TEXT] * 4, trainer)
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    assert len(vocabulary) == size, len(vocabulary)
    state = json.loads(tokenizer.to_str())
    merges = [m if isinstance(m, str) else " ".join(m) for m in state["model"]["merges"]]
    return [token for token, _ in vocabulary], merges


def permute(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of q and k as the llama converter orders them: pairs of RoPE are neighbours."""
    shape = weight.shape
    return weight.reshape(heads, 2, shape[0] // heads // 2, shape[1]).swapaxes(1, 2).reshape(shape)


def unpermute(weight: np.ndarray, heads: int) -> np.ndarray:
    shape = weight.shape
    return weight.reshape(heads, shape[0] // heads // 2, 2, shape[1]).swapaxes(1, 2).reshape(shape)


def random_k_blocks(rng, rows: int, columns: int, quant, gain: float) -> np.ndarray:
    """The gguf package quantises no K types: draw the blocks themselves, with scales of the right size."""
    block, size = gguf.GGML_QUANT_SIZES[quant]
    raw = rng.integers(0, 256, (rows * columns // block, size), dtype=np.uint8)
    std = gain / np.sqrt(columns)

    def scales(mean):
        values = (mean * rng.uniform(0.5, 1.5, len(raw))).astype(np.float16)
        return values.view(np.uint8).reshape(-1, 2)

    if quant == gguf.GGMLQuantizationType.Q6_K:
        raw[:, -2:] = scales(std / (18.5 * 74))
    else:
        # d * sc * q - dmin * m with 6-bit sc, m: the means cancel at dmin = d * (mean of q).
        codes = 15 if quant == gguf.GGMLQuantizationType.Q4_K else 31
        d = std / (36.5 * codes * 0.55)
        raw[:, 0:2] = scales(d)
        raw[:, 2:4] = scales(d * codes / 2)
    return raw.reshape(rows, -1)


def make_tensor(rng, rows: int, columns: int, type_name: str, gain: float, heads: int = 0):
    """The bytes for the file and the float32 weights that they stand for, in HF's order."""
    quant = gguf.GGMLQuantizationType[type_name]
    if type_name in ("Q4_K", "Q5_K", "Q6_K"):
        raw = random_k_blocks(rng, rows, columns, quant, gain)
    else:
        weight = rng.normal(0, gain / np.sqrt(columns), (rows, columns)).astype(np.float32)
        raw = gguf.quantize(weight, quant)
    exact = gguf.dequantize(raw, quant).astype(np.float32)
    return raw, quant, unpermute(exact, heads) if heads else exact


def build(variant: Variant, rng):
    v = variant
    q, kv = v.heads * v.head_dim, v.kv_heads * v.head_dim
    matrices = {"token_embd": ("model.embed_tokens", v.vocab, v.hidden, 3.0, 0)}
    if not v.tied:
        matrices["output"] = ("lm_head", v.vocab, v.hidden, 3.0, 0)
    for i in range(v.layers):
        for kind, hf, rows, columns, gain, heads in [
            ("attn_q", "self_attn.q_proj", q, v.hidden, 2.0, v.heads),
            ("attn_k", "self_attn.k_proj", kv, v.hidden, 2.0, v.kv_heads),
            ("attn_v", "self_attn.v_proj", kv, v.hidden, 1.0, 0),
            ("attn_output", "self_attn.o_proj", v.hidden, q, 1.5, 0),
            ("ffn_gate", "mlp.gate_proj", v.ffn, v.hidden, 1.5, 0),
            ("ffn_up", "mlp.up_proj", v.ffn, v.hidden, 1.5, 0),
            ("ffn_down", "mlp.down_proj", v.hidden, v.ffn, 1.5, 0),
        ]:
            matrices[f"blk.{i}.{kind}"] = (f"model.layers.{i}.{hf}", rows, columns, gain, heads)
    tensors, state = {}, {}
    for name, (hf, rows, columns, gain, heads) in matrices.items():
        type_name = v.types.get(name.split(".")[-1], v.types["*"])
        raw, quant, exact = make_tensor(rng, rows, columns, type_name, gain, heads)
        tensors[name + ".weight"] = (raw, quant)
        state[hf + ".weight"] = exact
    norms = {"output_norm": "model.norm"}
    for i in range(v.layers):
        norms[f"blk.{i}.attn_norm"] = f"model.layers.{i}.input_layernorm"
        norms[f"blk.{i}.ffn_norm"] = f"model.layers.{i}.post_attention_layernorm"
    for name, hf in norms.items():
        weight = rng.uniform(0.5, 1.5, v.hidden).astype(np.float32)
        tensors[name + ".weight"] = (weight, gguf.GGMLQuantizationType.F32)
        state[hf + ".weight"] = weight
    return tensors, state


def write_gguf(variant: Variant, tensors, path: pathlib.Path) -> None:
    v = variant
    tokens, merges = train_vocabulary(v.vocab)
    w = gguf.GGUFWriter(path, "llama")
    w.add_name(v.name)
    w.add_type("model")
    w.add_context_length(v.context)
    w.add_embedding_length(v.hidden)
    w.add_block_count(v.layers)
    w.add_feed_forward_length(v.ffn)
    w.add_head_count(v.heads)
    w.add_head_count_kv(v.kv_heads)
    if v.heads * v.head_dim != v.hidden:
        w.add_key_length(v.head_dim)
        w.add_value_length(v.head_dim)
    w.add_rope_dimension_count(v.head_dim)
    w.add_rope_freq_base(v.rope_base)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_vocab_size(v.vocab)
    w.add_quantization_version(2)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("smollm")
    w.add_token_list(tokens)
    w.add_token_types([3 if token in SPECIAL else 1 for token in tokens])
    w.add_token_merges(merges)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_pad_token_id(2)
    w.add_add_bos_token(False)
    w.add_add_space_prefix(False)
    w.add_chat_template(CHAT_TEMPLATE)
    for name, (raw, quant) in tensors.items():
        w.add_tensor(name, raw, raw_dtype=quant)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def reference_model(variant: Variant, state) -> LlamaForCausalLM:
    v = variant
    config = LlamaConfig(
        vocab_size=v.vocab,
        hidden_size=v.heads * v.head_dim,
        intermediate_size=v.ffn,
        num_hidden_layers=v.layers,
        num_attention_heads=v.heads,
        num_key_value_heads=v.kv_heads,
        head_dim=v.head_dim,
        max_position_embeddings=v.context,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": v.rope_base},
        tie_word_embeddings=v.tied,
        attention_bias=False,
        mlp_bias=False,
        attn_implementation="eager",
    )
    # The constructor insists on hidden % heads == 0; the model itself does not need it.
    config.hidden_size = v.hidden
    model = LlamaForCausalLM(config).to(torch.float32).eval()
    weights = {name: torch.from_numpy(np.ascontiguousarray(w)) for name, w in state.items()}
    if v.tied:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    model.load_state_dict(weights, strict=True)
    return model


def write_logits(variant: Variant, model, rng, path: pathlib.Path) -> None:
    out = struct.pack("<4sIII", b"BLGT", 1, variant.vocab, len(PROMPTS))
    for length, rows in PROMPTS:
        tokens = rng.integers(0, variant.vocab, length)
        with torch.no_grad():
            logits = model(torch.from_numpy(tokens[None])).logits[0].numpy()
        positions = range(length) if rows == "all" else [length - 1]
        out += struct.pack("<II", length, len(positions)) + tokens.astype("<i4").tobytes()
        for position in positions:
            out += struct.pack("<I", position) + logits[position].astype("<f4").tobytes()
        top = np.sort(logits[-1])[::-1]
        print(f"{variant.name} {length:4} tokens: top {top[:3]} std {logits[-1].std():.2f}")
    path.write_bytes(out)


def main() -> None:
    torch.set_num_threads(1)
    folder = pathlib.Path(__file__).parent
    for index, variant in enumerate(VARIANTS):
        rng = np.random.default_rng(1000 + index)
        tensors, state = build(variant, rng)
        path = folder / f"{variant.name}.gguf"
        write_gguf(variant, tensors, path)
        model = reference_model(variant, state)
        write_logits(variant, model, rng, folder / f"{variant.name}.logits")
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
