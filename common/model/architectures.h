#pragma once

// The architectures that Baton runs, as data: which metadata keys each knows, which tensors it has
// and of which shape. A new architecture is a new row here, plus whatever ModelDescription must
// learn to say. Keys and tensors: docs of GGUF and llama.cpp's `gguf-py/gguf/constants.py`.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace baton::model {

enum class TensorRole : uint8_t {
  kTokenEmbedding,
  kOutputNorm,
  kOutput,  // absent when tied to the embedding
  kAttnNorm,
  kAttnQ,
  kAttnK,
  kAttnV,
  kAttnOutput,
  kFfnNorm,
  kFfnGate,
  kFfnUp,
  kFfnDown,
};

// A tensor's extent in terms of the description.
enum class Extent : uint8_t { kOne, kHidden, kQuery, kKeyValue, kFfn, kVocab };

struct TensorRule {
  TensorRole role;
  std::string_view name;  // per layer: what follows "blk.N."
  bool per_layer;
  bool optional;
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

struct Architecture {
  std::string_view name;  // general.architecture
  bool rope_interleaved;
  std::span<const KeyRule> keys;
  std::span<const TensorRule> tensors;
};

std::span<const Architecture> architectures();
const Architecture* find_architecture(std::string_view name);  // null when unknown
std::string architecture_names();                              // "llama, qwen2", for messages

// "blk.3.attn_q.weight". `layer` is ignored for tensors of the whole model.
std::string tensor_name(const TensorRule& rule, int layer);
// Precondition: the architecture has the role.
const TensorRule& tensor_rule(const Architecture& architecture, TensorRole role);

}  // namespace baton::model
