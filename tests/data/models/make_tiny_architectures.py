#!/usr/bin/env python3
"""Writes one tiny random model of each architecture and the logits that transformers gives for it.

  pip install gguf==0.19.0 transformers==5.24.0 tokenizers==0.23.3 torch==2.15.0
  tests/data/models/make_tiny_architectures.py [NAME ...]

Each model is made by transformers from its own configuration and filled with random weights whose
Q4_0 form is exact in bf16 (the scales are powers of two), so that nothing but Baton's own rounding
lies between the two. NAME.logits holds what transformers gives in float32; NAME.rounded.logits the
same with values rounded to bf16 where docs/numerics.md rounds them (inputs of products, q, k, v and
probabilities), so that only the order of sums is left. The format is that of README.md; the
vocabulary that of the other tiny models. The same files come out every time with the same package
versions.
"""
import dataclasses
import pathlib
import struct
import sys

import gguf
import numpy as np
import torch
import transformers
from make_tiny_models import CHAT_TEMPLATE, SPECIAL, permute, train_vocabulary
from transformers.masking_utils import eager_mask

VOCAB = 320
CONTEXT = 512
PROMPTS = [(1, "all"), (9, "all"), (70, "last"), (300, "last")]
Q4_0 = gguf.GGMLQuantizationType.Q4_0
F32 = gguf.GGMLQuantizationType.F32


@dataclasses.dataclass(frozen=True)
class Variant:
    name: str
    arch: str  # of GGUF
    config_class: type
    model_class: type
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int = 128
    tied: bool = True
    bias: bool = False
    config: dict = dataclasses.field(default_factory=dict)  # of transformers
    rope_freqs: bool = False  # llama3's divisors go into a tensor
    keys: dict = dataclasses.field(default_factory=dict)  # of GGUF, under "<arch>."


def rope(kind: str, theta: float = 10000.0, **more) -> dict:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": theta, **more}}


def llama(name: str, **more) -> Variant:
    return Variant(name, "llama", transformers.LlamaConfig, transformers.LlamaForCausalLM, 64, 2, 4, 2, 64, **more)


# YaRN's own magnitude at a factor of 4 times the attn_factor of the file.
YARN_MAGNITUDE = (0.1 * np.log(4.0) + 1.0) * 0.75

VARIANTS = [
    llama("tiny_llama3", rope_freqs=True,
          config=rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                      original_max_position_embeddings=64)),
    llama("tiny_llama3_keys", tied=False,
          config=rope("llama3", 500000.0, factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0,
                      original_max_position_embeddings=256),
          keys={"rope.scaling.type": "llama3", "rope.scaling.factor": 32.0, "rope.scaling.low_freq_factor": 1.0,
                "rope.scaling.high_freq_factor": 4.0, "rope.scaling.original_context_length": 256,
                "rope.freq_base": 500000.0}),
    llama("tiny_llama_linear", bias=True, config={"attention_bias": True, **rope("linear", factor=4.0)},
          keys={"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}),
    llama("tiny_llama_yarn",
          config=rope("yarn", factor=4.0, original_max_position_embeddings=128,
                      attention_factor=float(YARN_MAGNITUDE), beta_fast=6.0, beta_slow=2.0),
          keys={"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.attn_factor": 0.75,
                "rope.scaling.yarn_beta_fast": 6.0, "rope.scaling.yarn_beta_slow": 2.0,
                "rope.scaling.original_context_length": 128}),
    Variant("tiny_mistral", "llama", transformers.MistralConfig, transformers.MistralForCausalLM, 64, 2, 4, 2, 64,
            tied=False, config={"sliding_window": 40, **rope("default")}, keys={"attention.sliding_window": 40}),
    Variant("tiny_qwen2", "qwen2", transformers.Qwen2Config, transformers.Qwen2ForCausalLM, 64, 2, 4, 2, 64,
            bias=True, config={"use_sliding_window": False, **rope("default", 1000000.0)},
            keys={"rope.freq_base": 1000000.0}),
    Variant("tiny_qwen3", "qwen3", transformers.Qwen3Config, transformers.Qwen3ForCausalLM, 32, 2, 4, 2, 128,
            tied=False, config={"use_sliding_window": False, **rope("default", 1000000.0)},
            keys={"rope.freq_base": 1000000.0}),
    # Window and local RoPE as in the files of Google: no pattern, no local base.
    Variant("tiny_gemma3", "gemma3", transformers.Gemma3TextConfig, transformers.Gemma3ForCausalLM, 32, 7, 4, 1, 64,
            config={"sliding_window": 24, "query_pre_attn_scalar": 64,
                    "layer_types": ["sliding_attention"] * 5 + ["full_attention", "sliding_attention"],
                    "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
                                        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}},
            keys={"attention.sliding_window": 24, "rope.freq_base": 1000000.0}),
    Variant("tiny_gemma3_untied", "gemma3", transformers.Gemma3TextConfig, transformers.Gemma3ForCausalLM,
            32, 3, 4, 1, 256, tied=False,
            config={"sliding_window": 64, "query_pre_attn_scalar": 100,
                    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
                    "rope_parameters": {"full_attention": {"rope_type": "linear", "rope_theta": 1000000.0,
                                                           "factor": 8.0},
                                        "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}}},
            keys={"attention.sliding_window": 64, "attention.sliding_window_pattern": 2, "attention.scale": 0.1,
                  "rope.freq_base": 1000000.0, "rope.freq_base_swa": 5000.0, "rope.scaling.type": "linear",
                  "rope.scaling.factor": 8.0, "attn_logit_softcapping": 0.0}),
]  # fmt: skip


def round_bf16(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.bfloat16).to(torch.float32)


def rounded_attention(module, query, key, value, attention_mask, scaling, **_):
    """Eager attention with the rounding points of docs/numerics.md, in one split."""
    assert key.shape[2] <= 512
    groups = query.shape[1] // key.shape[1]
    query, key, value = (round_bf16(t) for t in (query, key, value))
    key, value = (t.repeat_interleave(groups, dim=1) for t in (key, value))
    scores = query @ key.transpose(2, 3) * scaling + attention_mask
    p = round_bf16(torch.exp(scores - scores.max(-1, keepdim=True).values))
    out = (p @ value) / p.sum(-1, keepdim=True)
    return out.transpose(1, 2).contiguous(), p


transformers.AttentionInterface.register("rounded", rounded_attention)
transformers.AttentionMaskInterface.register("rounded", eager_mask)


def exact_matrix(rng, rows: int, columns: int, gain: float):
    """Q4_0 blocks with a power of two as scale, and the float32 weights that they stand for."""
    scale = 2.0 ** round(np.log2(gain / (4.61 * np.sqrt(columns))))
    codes = rng.integers(0, 16, (rows, columns // 32, 32), dtype=np.uint8)
    blocks = np.empty((rows, columns // 32, 18), dtype=np.uint8)
    blocks[..., 0:2] = np.frombuffer(np.float16(scale).tobytes(), dtype=np.uint8)
    blocks[..., 2:] = codes[..., :16] | (codes[..., 16:] << 4)
    raw = blocks.reshape(rows, -1)
    exact = gguf.dequantize(raw, Q4_0).astype(np.float32)
    assert np.array_equal(exact, ((codes.astype(np.float32) - 8) * scale).reshape(rows, columns))
    return raw, exact


LAYER_MATRICES = {  # GGUF name: (HF name, gain)
    "attn_q": ("self_attn.q_proj", 2.0),
    "attn_k": ("self_attn.k_proj", 2.0),
    "attn_v": ("self_attn.v_proj", 1.0),
    "attn_output": ("self_attn.o_proj", 1.5),
    "ffn_gate": ("mlp.gate_proj", 1.5),
    "ffn_up": ("mlp.up_proj", 1.5),
    "ffn_down": ("mlp.down_proj", 1.5),
}
LLAMA_NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
GEMMA_NORMS = {
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
HEAD_NORMS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}


class Filler:
    """Fills a model of transformers and collects the same weights as GGUF tensors."""

    def __init__(self, variant: Variant, model, rng):
        self.v, self.model, self.rng = variant, model, rng
        self.state = {name: torch.zeros_like(t) for name, t in model.state_dict().items()}
        self.tensors = {}

    def matrix(self, name: str, hf: str, gain: float) -> None:
        rows, columns = self.state[hf + ".weight"].shape
        raw, exact = exact_matrix(self.rng, rows, columns, gain)
        self.state[hf + ".weight"] = torch.from_numpy(exact)
        heads = {"attn_q": self.v.heads, "attn_k": self.v.kv_heads}.get(name.split(".")[-1])
        if heads and self.v.arch == "llama":
            raw = permute(raw, heads)  # whole rows change places, blocks stay as they are
        self.tensors[name + ".weight"] = (raw, Q4_0)

    def norm(self, name: str, hf: str) -> None:
        size = self.state[hf + ".weight"].shape[0]
        weight = (self.rng.integers(512, 1536, size) / 1024).astype(np.float32)
        gemma = self.v.arch == "gemma3"  # stores w of (1 + w)
        self.state[hf + ".weight"] = torch.from_numpy(weight - 1 if gemma else weight)
        self.tensors[name + ".weight"] = (weight, F32)

    def bias(self, name: str, hf: str) -> None:
        bias = self.rng.normal(0, 0.5, self.state[hf + ".bias"].shape[0]).astype(np.float32)
        self.state[hf + ".bias"] = torch.from_numpy(bias)
        heads = {"attn_q": self.v.heads, "attn_k": self.v.kv_heads}.get(name.split(".")[-1])
        if heads and self.v.arch == "llama":
            bias = permute(bias[:, None], heads)[:, 0]
        self.tensors[name + ".bias"] = (np.ascontiguousarray(bias), F32)

    def run(self):
        v = self.v
        self.matrix("token_embd", "model.embed_tokens", 3.0 * np.sqrt(v.hidden) / 8)
        if v.tied:
            self.state["lm_head.weight"] = self.state["model.embed_tokens.weight"]
        else:
            self.matrix("output", "lm_head", 3.0)
        self.norm("output_norm", "model.norm")
        norms = dict(GEMMA_NORMS if v.arch == "gemma3" else LLAMA_NORMS)
        if v.arch in ("qwen3", "gemma3"):
            norms |= HEAD_NORMS
        for i in range(v.layers):
            for name, (hf, gain) in LAYER_MATRICES.items():
                self.matrix(f"blk.{i}.{name}", f"model.layers.{i}.{hf}", gain)
            for name, hf in norms.items():
                self.norm(f"blk.{i}.{name}", f"model.layers.{i}.{hf}")
            for name in ["attn_q", "attn_k", "attn_v"] if v.bias else []:
                self.bias(f"blk.{i}.{name}", f"model.layers.{i}.{LAYER_MATRICES[name][0]}")
        if v.rope_freqs:
            plain = 10000.0 ** -(np.arange(0, v.head_dim, 2) / v.head_dim)
            divisors = plain / self.model.model.rotary_emb.inv_freq.numpy()
            self.tensors["rope_freqs.weight"] = (divisors.astype(np.float32), F32)
        self.model.load_state_dict(self.state, strict=True)
        return self.tensors


def make_model(variant: Variant):
    v = variant
    config = v.config_class(
        vocab_size=VOCAB,
        hidden_size=v.heads * v.head_dim,
        intermediate_size=v.ffn,
        num_hidden_layers=v.layers,
        num_attention_heads=v.heads,
        num_key_value_heads=v.kv_heads,
        head_dim=v.head_dim,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-5,
        tie_word_embeddings=v.tied,
        **v.config,
    )
    # Some constructors insist on hidden % heads == 0; the models themselves do not need it.
    config.hidden_size = v.hidden
    return v.model_class(config).to(torch.float32).eval()


def write_gguf(variant: Variant, tensors, path: pathlib.Path) -> None:
    v = variant
    tokens, merges = train_vocabulary(VOCAB)
    w = gguf.GGUFWriter(path, v.arch)
    w.add_name(v.name)
    w.add_type("model")
    w.add_context_length(CONTEXT)
    w.add_embedding_length(v.hidden)
    w.add_block_count(v.layers)
    w.add_feed_forward_length(v.ffn)
    w.add_head_count(v.heads)
    w.add_head_count_kv(v.kv_heads)
    w.add_key_length(v.head_dim)
    w.add_value_length(v.head_dim)
    w.add_layer_norm_rms_eps(1e-5)
    for key, value in v.keys.items():
        add = {str: w.add_string, int: w.add_uint32, float: w.add_float32}[type(value)]
        add(f"{v.arch}.{key}", value)
    w.add_quantization_version(2)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("smollm")
    w.add_token_list(tokens)
    w.add_token_types([3 if token in SPECIAL else 1 for token in tokens])
    w.add_token_merges(merges)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_add_bos_token(False)
    w.add_chat_template(CHAT_TEMPLATE)
    for name, (raw, quant) in tensors.items():
        w.add_tensor(name, raw, raw_dtype=quant)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def logits_of(model, prompts):
    with torch.no_grad():
        return [model(torch.from_numpy(tokens[None]), use_cache=False).logits[0].numpy() for tokens in prompts]


def rounded_logits_of(model, prompts):
    model.set_attn_implementation("rounded")
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(lambda _, args: (round_bf16(args[0]),))
    return logits_of(model, prompts)


def write_logits(prompts, logits, path: pathlib.Path) -> None:
    out = struct.pack("<4sIII", b"BLGT", 1, VOCAB, len(PROMPTS))
    for (length, rows), tokens, values in zip(PROMPTS, prompts, logits):
        positions = range(length) if rows == "all" else [length - 1]
        out += struct.pack("<II", length, len(positions)) + tokens.astype("<i4").tobytes()
        for position in positions:
            out += struct.pack("<I", position) + values[position].astype("<f4").tobytes()
    path.write_bytes(out)


def main() -> None:
    torch.set_num_threads(1)
    folder = pathlib.Path(__file__).parent
    for index, variant in enumerate(VARIANTS):
        if sys.argv[1:] and variant.name not in sys.argv[1:]:
            continue
        rng = np.random.default_rng(2000 + index)
        model = make_model(variant)
        model.set_attn_implementation("eager")
        tensors = Filler(variant, model, rng).run()
        path = folder / f"{variant.name}.gguf"
        write_gguf(variant, tensors, path)
        prompts = [rng.integers(0, VOCAB, length) for length, _ in PROMPTS]
        exact = logits_of(model, prompts)
        rounded = rounded_logits_of(model, prompts)
        write_logits(prompts, exact, folder / f"{variant.name}.logits")
        write_logits(prompts, rounded, folder / f"{variant.name}.rounded.logits")
        error = [np.linalg.norm(r[-1] - e[-1]) / np.linalg.norm(e[-1]) for r, e in zip(rounded, exact)]
        print(f"{path.name}: {path.stat().st_size} bytes, std {exact[-1][-1].std():.2f}, "
              f"rounding costs {max(error):.4f}")


if __name__ == "__main__":
    main()
