#pragma once

// A model as data: what the layers are built from. One forward pass serves every architecture that
// this can describe; an architecture is a row of the table in architectures.cc.

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/model_file/gguf.h"

namespace baton::model {

struct RopeDescription {
  float base = 10000.0F;
  int dims = 0;             // rotated dims of a head, even, <= head_dim; the rest passes through
  bool interleaved = true;  // pairs (2i, 2i+1), the order of llama in GGUF; else (i, i + dims/2)
};

struct ModelDescription {
  std::string architecture;  // "llama"
  std::string name;          // general.name, or the file's name; for people
  int hidden = 0;
  int layers = 0;
  int heads = 0;  // query heads; a multiple of kv_heads
  int kv_heads = 0;
  int head_dim = 0;  // of q, k and v; even
  int ffn = 0;
  int vocab = 0;
  int max_context = 0;  // tokens
  float norm_eps = 0;
  float attention_scale = 0;  // 1/sqrt(head_dim) in f32
  RopeDescription rope;
  bool tied = false;  // the head is the embedding matrix

  int heads_per_kv() const { return heads / kv_heads; }
};

// Reads and checks everything that shapes the computation: every key under "<architecture>.", every
// tensor with its name, shape and type. What the file asks for and Baton does not do (experts,
// scaled RoPE, sliding windows, soft-caps, biases, unknown keys and tensors) is refused by name
// with its value: nothing unknown is ignored. Errors: unsupported for those, invalid_argument for a
// file that contradicts itself or lacks something.
Result<ModelDescription> describe(const model_file::GgufFile& file);

}  // namespace baton::model
