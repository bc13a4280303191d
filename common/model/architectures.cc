#include "common/model/architectures.h"

#include <algorithm>
#include <array>

#include "common/base/check.h"

namespace baton::model {
namespace {

template <typename T, size_t A, size_t B>
constexpr std::array<T, A + B> join(const std::array<T, A>& a, const std::array<T, B>& b) {
  std::array<T, A + B> all{};
  std::ranges::copy(a, all.begin());
  std::ranges::copy(b, all.begin() + A);
  return all;
}

// Keys.

constexpr KeyRule read(std::string_view suffix) { return {suffix, "", ""}; }

constexpr std::array kCommonKeys = {
    read("block_count"),
    read("context_length"),
    read("embedding_length"),
    read("feed_forward_length"),
    read("attention.head_count"),
    read("attention.head_count_kv"),
    read("attention.key_length"),
    read("attention.value_length"),
    read("attention.layer_norm_rms_epsilon"),
    read("attention.scale"),
    read("rope.dimension_count"),
    read("rope.freq_base"),
    read("rope.scale_linear"),
    read("rope.scaling.type"),
    read("rope.scaling.factor"),
    read("rope.scaling.attn_factor"),
    read("rope.scaling.original_context_length"),
    read("rope.scaling.finetuned"),
    read("rope.scaling.yarn_attn_factor"),
    read("rope.scaling.yarn_beta_fast"),
    read("rope.scaling.yarn_beta_slow"),
    read("rope.scaling.low_freq_factor"),
    read("rope.scaling.high_freq_factor"),
    read("vocab_size"),
    KeyRule{"rope.scaling.yarn_ext_factor", "1", "another ramp of YaRN"},
    KeyRule{"rope.scaling.yarn_log_multiplier", "0", "another magnitude of YaRN"},
    KeyRule{"expert_count", "0", "mixture of experts"},
    KeyRule{"expert_used_count", "0", "mixture of experts"},
    KeyRule{"attn_logit_softcapping", "0", "soft-capped attention scores"},
    KeyRule{"final_logit_softcapping", "0", "soft-capped logits"},
    KeyRule{"attention.clamp_kqv", "0", "clamped q, k and v"},
    KeyRule{"attention.max_alibi_bias", "0", "ALiBi positions"},
    KeyRule{"attention.causal", "true", "attention that is not causal"},
    KeyRule{"use_parallel_residual", "false", "parallel residuals"},
    KeyRule{"embedding_scale", "1", "another scale of embeddings"},
    KeyRule{"residual_scale", "1", "scaled residuals"},
    KeyRule{"logit_scale", "1", "scaled logits"},
};

constexpr auto kLlamaKeys = join(
    kCommonKeys, std::array{
                     read("attention.sliding_window"),
                     KeyRule{"tensor_data_layout", "Meta AI original pth", "another tensor layout"},
                 });

constexpr auto kQwenKeys =
    join(kCommonKeys, std::array{
                          KeyRule{"attention.sliding_window", "0", "a sliding window"},
                      });

constexpr auto kGemma3Keys = join(kCommonKeys, std::array{
                                                   read("attention.sliding_window"),
                                                   read("attention.sliding_window_pattern"),
                                                   read("rope.freq_base_swa"),
                                               });

// Tensors.

constexpr bool kOptional = true;

constexpr TensorRule model_tensor(TensorRole role, std::string_view name, Extent columns,
                                  Extent rows, bool optional = false) {
  return {role, name, false, optional, columns, rows};
}

constexpr TensorRule layer_matrix(TensorRole role, std::string_view name, Extent columns,
                                  Extent rows) {
  return {role, name, true, false, columns, rows};
}

constexpr TensorRule layer_vector(TensorRole role, std::string_view name, Extent size,
                                  bool optional = false) {
  return {role, name, true, optional, size, Extent::kOne};
}

constexpr std::array kCommonTensors = {
    model_tensor(TensorRole::kTokenEmbedding, "token_embd.weight", Extent::kHidden, Extent::kVocab),
    model_tensor(TensorRole::kOutputNorm, "output_norm.weight", Extent::kHidden, Extent::kOne),
    model_tensor(TensorRole::kOutput, "output.weight", Extent::kHidden, Extent::kVocab, kOptional),
    model_tensor(TensorRole::kRopeFreqs, "rope_freqs.weight", Extent::kRopePairs, Extent::kOne,
                 kOptional),
    layer_vector(TensorRole::kAttnNorm, "attn_norm.weight", Extent::kHidden),
    layer_matrix(TensorRole::kAttnQ, "attn_q.weight", Extent::kHidden, Extent::kQuery),
    layer_matrix(TensorRole::kAttnK, "attn_k.weight", Extent::kHidden, Extent::kKeyValue),
    layer_matrix(TensorRole::kAttnV, "attn_v.weight", Extent::kHidden, Extent::kKeyValue),
    layer_matrix(TensorRole::kAttnOutput, "attn_output.weight", Extent::kQuery, Extent::kHidden),
    layer_vector(TensorRole::kFfnNorm, "ffn_norm.weight", Extent::kHidden),
    layer_matrix(TensorRole::kFfnGate, "ffn_gate.weight", Extent::kHidden, Extent::kFfn),
    layer_matrix(TensorRole::kFfnUp, "ffn_up.weight", Extent::kHidden, Extent::kFfn),
    layer_matrix(TensorRole::kFfnDown, "ffn_down.weight", Extent::kFfn, Extent::kHidden),
};

constexpr std::array<TensorRule, 3> qkv_biases(bool optional) {
  return {layer_vector(TensorRole::kAttnQBias, "attn_q.bias", Extent::kQuery, optional),
          layer_vector(TensorRole::kAttnKBias, "attn_k.bias", Extent::kKeyValue, optional),
          layer_vector(TensorRole::kAttnVBias, "attn_v.bias", Extent::kKeyValue, optional)};
}

constexpr std::array kHeadNorms = {
    layer_vector(TensorRole::kAttnQNorm, "attn_q_norm.weight", Extent::kHeadDim),
    layer_vector(TensorRole::kAttnKNorm, "attn_k_norm.weight", Extent::kHeadDim),
};

constexpr std::array kPostNorms = {
    layer_vector(TensorRole::kAttnPostNorm, "post_attention_norm.weight", Extent::kHidden),
    layer_vector(TensorRole::kFfnPostNorm, "post_ffw_norm.weight", Extent::kHidden),
};

constexpr auto kLlamaTensors = join(kCommonTensors, qkv_biases(kOptional));
constexpr auto kQwen2Tensors = join(kCommonTensors, qkv_biases(false));
constexpr auto kQwen3Tensors = join(kCommonTensors, kHeadNorms);
constexpr auto kGemma3Tensors = join(kQwen3Tensors, kPostNorms);

constexpr std::array kArchitectures = {
    // Mistral's files, too. The converter permutes q and k, so that RoPE pairs are neighbours.
    Architecture{.name = "llama",
                 .keys = kLlamaKeys,
                 .tensors = kLlamaTensors,
                 .rope_interleaved = true,
                 .windows = WindowPattern::kAll},
    Architecture{.name = "qwen2", .keys = kQwenKeys, .tensors = kQwen2Tensors},
    Architecture{.name = "qwen3", .keys = kQwenKeys, .tensors = kQwen3Tensors},
    // Its norm weights are stored with the 1 of (1 + w) added.
    Architecture{.name = "gemma3",
                 .keys = kGemma3Keys,
                 .tensors = kGemma3Tensors,
                 .activation = kernels::Activation::kGeluTanh,
                 .scaled_embedding = true,
                 .windows = WindowPattern::kFiveOfSix,
                 .window_rope_base = 10000.0F,
                 .layers_scaled_by_hidden = 62},  // 27B
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
