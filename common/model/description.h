#pragma once

// A model as data: what the layers are built from. One forward pass serves every architecture that
// this can describe; an architecture is a row of the table in architectures.cc.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/kernels/small/small_ops.h"
#include "common/model/rope.h"
#include "common/model_file/model_file.h"

namespace baton::model {

// What tells one layer's attention from another's.
struct LayerAttention {
  int window = 0;  // keys that a query sees, itself included; 0: all
  int rope = 0;    // index in ModelDescription::ropes
};

struct ModelDescription {
  std::string architecture;  // "llama", a name of architectures.h
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
  float attention_scale = 0;  // 1/sqrt(head_dim) in f32, or what the file says
  float embedding_scale = 1;  // factor of what is looked up; the head does not see it
  kernels::Activation activation = kernels::Activation::kSilu;
  std::vector<RopeDescription> ropes{1};  // the first is that of layers that see all keys
  // One entry a layer; empty: every layer sees all keys and uses the first of `ropes`.
  std::vector<LayerAttention> attention;
  bool tied = false;  // the head is the embedding matrix

  int heads_per_kv() const { return heads / kv_heads; }
  // 0: the layer's query at position i sees keys 0..i; else W: key j iff i - W < j <= i.
  int window(int layer) const {
    return attention.empty() ? 0 : attention[static_cast<size_t>(layer)].window;
  }
  int rope_index(int layer) const {
    return attention.empty() ? 0 : attention[static_cast<size_t>(layer)].rope;
  }
  const RopeDescription& rope(int layer) const {
    return ropes[static_cast<size_t>(rope_index(layer))];
  }
};

// Reads and checks everything that shapes the computation: every key under "<architecture>.", every
// tensor with its name, shape and type. What the file asks for and Baton does not do (experts,
// soft-caps, adapters, other scalings of RoPE, unknown keys and tensors) is refused by name with
// its value: nothing unknown is ignored. Errors: unsupported for those, invalid_argument for a file
// that contradicts itself or lacks something.
Result<ModelDescription> describe(const model_file::ModelFile& file);

// All reasons why describe() would refuse the file, in the order in which it meets them; none where
// it would not.
std::vector<Status> describe_faults(const model_file::ModelFile& file);

}  // namespace baton::model
