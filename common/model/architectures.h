#pragma once

// The architectures that Baton runs, as data: which metadata keys each knows, which tensors it has
// and of which shape. A new architecture is a new row here, plus whatever ModelDescription must
// learn to say. Keys and tensors: docs of GGUF and llama.cpp's `gguf-py/gguf/constants.py`.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/kernels/small/small_ops.h"

namespace baton::model {

enum class TensorRole : uint8_t {
  kTokenEmbedding,
  kOutputNorm,
  kOutput,     // absent when tied to the embedding
  kRopeFreqs,  // divisors of the frequencies of RoPE
  kAttnNorm,
  kAttnQ,
  kAttnK,
  kAttnV,
  kAttnQBias,
  kAttnKBias,
  kAttnVBias,
  kAttnQNorm,
  kAttnKNorm,
  kAttnOutput,
  kAttnPostNorm,  // of the attention's result, before it enters the residual
  kFfnNorm,
  kFfnGate,
  kFfnUp,
  kFfnDown,
  kFfnPostNorm,  // the same of the feed-forward result
};

// A tensor's extent in terms of the description.
enum class Extent : uint8_t {
  kOne,
  kHidden,
  kQuery,
  kKeyValue,
  kHeadDim,
  kRopePairs,
  kFfn,
  kVocab,
};

struct TensorRule {
  TensorRole role;
  std::string_view name;  // per layer: what follows "blk.N."
  bool per_layer;
  bool optional;   // per layer: all layers have it or none
  Extent columns;  // dims[0]: elements of a row
  Extent rows;     // dims[1]; kOne for vectors
};

// A key under "<architecture>." that the reader knows.
struct KeyRule {
  std::string_view suffix;
  // Empty: read into the description. Otherwise the only value (as text) with which the model is
  // what the description says; any other is refused, naming `feature`.
  std::string_view neutral;
  std::string_view feature;
};

// Which layers have a sliding window, where the file names a window but no pattern.
enum class WindowPattern : uint8_t {
  kNone,  // the architecture knows no windows
  kAll,
  kFiveOfSix,  // all but every sixth
};

struct Architecture {
  std::string_view name;  // general.architecture
  std::span<const KeyRule> keys;
  std::span<const TensorRule> tensors;
  bool rope_interleaved = false;
  kernels::Activation activation = kernels::Activation::kSilu;
  bool scaled_embedding = false;  // by sqrt(hidden)
  WindowPattern windows = WindowPattern::kNone;
  // RoPE base of window layers where the file names none; 0: that of all others, scaled like it.
  float window_rope_base = 0;
  // The model of this many layers scales scores by 1/sqrt(hidden / heads), though its file does not
  // say so; 0: no such model.
  int layers_scaled_by_hidden = 0;

  bool has(TensorRole role) const {
    return std::ranges::find(tensors, role, &TensorRule::role) != tensors.end();
  }
};

std::span<const Architecture> architectures();
const Architecture* find_architecture(std::string_view name);  // null when unknown
std::string architecture_names();                              // "llama, qwen2, ..", for messages

// "blk.3.attn_q.weight". `layer` is ignored for tensors of the whole model.
std::string tensor_name(const TensorRule& rule, int layer);
// Precondition: the architecture has the role.
const TensorRule& tensor_rule(const Architecture& architecture, TensorRole role);

}  // namespace baton::model
