#include "common/model/architectures.h"

#include <algorithm>
#include <array>

#include "common/base/check.h"

namespace baton::model {
namespace {

constexpr std::array kLlamaKeys = {
    KeyRule{"block_count", "", ""},
    KeyRule{"context_length", "", ""},
    KeyRule{"embedding_length", "", ""},
    KeyRule{"feed_forward_length", "", ""},
    KeyRule{"attention.head_count", "", ""},
    KeyRule{"attention.head_count_kv", "", ""},
    KeyRule{"attention.key_length", "", ""},
    KeyRule{"attention.value_length", "", ""},
    KeyRule{"attention.layer_norm_rms_epsilon", "", ""},
    KeyRule{"rope.dimension_count", "", ""},
    KeyRule{"rope.freq_base", "", ""},
    KeyRule{"vocab_size", "", ""},
    KeyRule{"expert_count", "0", "mixture of experts"},
    KeyRule{"expert_used_count", "0", "mixture of experts"},
    KeyRule{"rope.scaling.type", "none", "scaled RoPE"},
    KeyRule{"rope.scaling.factor", "1", "scaled RoPE"},
    KeyRule{"rope.scaling.attn_factor", "1", "scaled RoPE"},
    KeyRule{"rope.scaling.finetuned", "false", "scaled RoPE"},
    KeyRule{"rope.scale_linear", "1", "scaled RoPE"},
    KeyRule{"attention.sliding_window", "0", "a sliding window"},
    KeyRule{"attn_logit_softcapping", "0", "soft-capped attention scores"},
    KeyRule{"final_logit_softcapping", "0", "soft-capped logits"},
    KeyRule{"attention.clamp_kqv", "0", "clamped q, k and v"},
    KeyRule{"attention.max_alibi_bias", "0", "ALiBi positions"},
    KeyRule{"attention.causal", "true", "attention that is not causal"},
    KeyRule{"use_parallel_residual", "false", "parallel residuals"},
    KeyRule{"embedding_scale", "1", "scaled embeddings"},
    KeyRule{"residual_scale", "1", "scaled residuals"},
    KeyRule{"logit_scale", "1", "scaled logits"},
    KeyRule{"tensor_data_layout", "Meta AI original pth", "another tensor layout"},
};

constexpr std::array kLlamaTensors = {
    TensorRule{TensorRole::kTokenEmbedding, "token_embd.weight", false, false, Extent::kHidden,
               Extent::kVocab},
    TensorRule{TensorRole::kOutputNorm, "output_norm.weight", false, false, Extent::kHidden,
               Extent::kOne},
    TensorRule{TensorRole::kOutput, "output.weight", false, true, Extent::kHidden, Extent::kVocab},
    TensorRule{TensorRole::kAttnNorm, "attn_norm.weight", true, false, Extent::kHidden,
               Extent::kOne},
    TensorRule{TensorRole::kAttnQ, "attn_q.weight", true, false, Extent::kHidden, Extent::kQuery},
    TensorRule{TensorRole::kAttnK, "attn_k.weight", true, false, Extent::kHidden,
               Extent::kKeyValue},
    TensorRule{TensorRole::kAttnV, "attn_v.weight", true, false, Extent::kHidden,
               Extent::kKeyValue},
    TensorRule{TensorRole::kAttnOutput, "attn_output.weight", true, false, Extent::kQuery,
               Extent::kHidden},
    TensorRule{TensorRole::kFfnNorm, "ffn_norm.weight", true, false, Extent::kHidden, Extent::kOne},
    TensorRule{TensorRole::kFfnGate, "ffn_gate.weight", true, false, Extent::kHidden, Extent::kFfn},
    TensorRule{TensorRole::kFfnUp, "ffn_up.weight", true, false, Extent::kHidden, Extent::kFfn},
    TensorRule{TensorRole::kFfnDown, "ffn_down.weight", true, false, Extent::kFfn, Extent::kHidden},
};

constexpr std::array kArchitectures = {
    // The converter permutes q and k, so that RoPE pairs are neighbours.
    Architecture{"llama", true, kLlamaKeys, kLlamaTensors},
};

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

const Architecture* find_architecture(std::string_view name) {
  const auto* it = std::ranges::find(kArchitectures, name, &Architecture::name);
  return it == kArchitectures.end() ? nullptr : it;
}

std::string architecture_names() {
  std::string out;
  for (const Architecture& architecture : kArchitectures) {
    out += (out.empty() ? "" : ", ") + std::string(architecture.name);
  }
  return out;
}

std::string tensor_name(const TensorRule& rule, int layer) {
  const std::string prefix = rule.per_layer ? "blk." + std::to_string(layer) + "." : "";
  return prefix + std::string(rule.name);
}

const TensorRule& tensor_rule(const Architecture& architecture, TensorRole role) {
  const auto it = std::ranges::find(architecture.tensors, role, &TensorRule::role);
  BATON_CHECK(it != architecture.tensors.end(), "role of another architecture");
  return *it;
}

}  // namespace baton::model
