#pragma once

// The weights of a model, packed for one pool and cut for the ranks of a tensor-parallel group.
// Immutable after load; any number of threads may read. Owned by the engine.
//
// A projection that is split by columns (q, k, v, gate, up, head) is a Projection: one output row y
// of `columns` f32 in which every part starts at a multiple of 16. A product that is split by rows
// (attention output, ffn down) is one matrix per reduction segment, each giving [rows, hidden]:
// the caller adds the results of all segments of all ranks in ascending order (kernels:
// residual_norm `parts`).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/kernels/matmul/matmul.h"
#include "common/kernels/small/small_ops.h"
#include "common/model/description.h"
#include "common/model/packed_store.h"
#include "common/model/segments.h"
#include "common/model_file/model_file.h"

namespace baton::model {

// Which format the matrices of the layers are kept in. Both stand for the same bf16 values. The
// head stays in the file's blocks in both pools.
enum class WeightPool : uint8_t {
  kPrefill,  // bf16 panels: computes fastest
  kDecode,   // the file's blocks: reads least (bf16 panels for F32, F16 and BF16)
};

// The form that prompts are computed from: bf16 panels, but where the fast arithmetic is quicker on
// the file's blocks, these.
WeightPool prompt_pool(device::Isa isa, kernels::Arithmetic arithmetic);

// What tells apart the packed files of one model: "decode-t1s1" of one rank and one segment.
std::string packed_variant(WeightPool pool, const SegmentPlan& plan);

// One matmul of a projection: y[row][column ..] = x · weightsᵀ.
struct ProjectionPart {
  kernels::PackedMatrix weights;
  int column = 0;       // of y, a multiple of 16
  int first_panel = 0;  // of the projection: sum of panels() of the parts before
};

// More than one part only where the file mixes tensor types (Q4_K_M keeps some attn_v in Q6_K).
struct Projection {
  std::vector<ProjectionPart> parts;
  int columns = 0;  // of y: the stride must be at least this; a multiple of 16
  int panels = 0;   // of all parts: what work is shared out by
  int k = 0;        // elements of an x row; x is zero up to the next multiple of 32

  // The part that holds a panel in [0, panels).
  const ProjectionPart& part_of(int panel) const;
};

// One reduction segment of a row-split matrix; never empty.
struct SegmentMatrix {
  kernels::PackedMatrix weights;  // [hidden, k of the segment]
  int segment = 0;                // of the whole model, ascending within a rank
  // Where the segment starts in a row of the rank's input (see RankColumns): a multiple of 32.
  int x_column = 0;
};

struct LayerWeights {
  Projection qkv;                          // columns: RankColumns q, k, v
  std::vector<SegmentMatrix> attn_output;  // input: RankColumns attention
  Projection gate_up;                      // columns: RankColumns gate, up
  std::vector<SegmentMatrix> ffn_down;     // input: RankColumns ffn
};

// Norm weights and biases of a layer, f32, of the whole model; empty where it has none.
struct LayerVectors {
  std::vector<float> attn_norm;               // [hidden]
  std::vector<float> q_bias, k_bias, v_bias;  // [heads * head_dim], [kv_heads * head_dim]
  std::vector<float> q_norm, k_norm;          // [head_dim]
  std::vector<float> attn_post_norm;          // [hidden], of the attention's result
  std::vector<float> ffn_norm;                // [hidden]
  std::vector<float> ffn_post_norm;           // [hidden], of the feed-forward result
};

// Where things lie in the rows of a rank's activations; the same in every layer.
struct RankColumns {
  Range query_heads;             // of the model
  kv_cache::HeadRange kv_heads;  // of the model
  Range ffn;                     // of the model
  Range vocab;                   // rows of the head, of the model
  // In the output of `qkv`, f32: head h of the part (counted from 0 in the rank) starts at
  // q/k/v + h * head_dim.
  int q = 0;
  int k = 0;
  int v = 0;
  // In the output of `gate_up`, f32: column c of the rank at gate + c and up + c.
  int gate = 0;
  int up = 0;
  // Input of `attn_output`, bf16: the query head i of the rank starts at attention_head[i]. Heads
  // of one segment are adjacent, and each segment starts at a multiple of 32; columns between
  // segments and up to attention_columns must be zero. Where head_dim * (heads of a segment) is a
  // multiple of 32, that is i * head_dim.
  std::vector<int> attention_head;
  int attention_columns = 0;  // a multiple of 32
  // Input of `ffn_down`, bf16: column c of the rank at c, zero from ffn.count() on.
  int ffn_columns = 0;  // a multiple of 32
};

struct RankWeights {
  RankColumns columns;
  std::vector<LayerWeights> layers;
  Projection head;              // y column c is the logit of token columns.vocab.begin + c
  size_t bytes = 0;             // resident: packed matrices, norm weights and biases
  size_t replicated_bytes = 0;  // of these, what other ranks hold as well: norms, shared KV heads
};

using model_file::ParallelFor;
using model_file::serial_for;

class Weights final {
 public:
  // Takes the file: embedding rows are read from its mapping. `description` and `plan` come from
  // the same file. Work is shared out through `parallel_for`. `kept` says where packed weights are
  // looked for and left (packed_store.h). Blocking; seconds for large models.
  static Result<std::unique_ptr<Weights>> load(model_file::ModelFile file,
                                               const ModelDescription& description,
                                               const SegmentPlan& plan, WeightPool pool,
                                               const ParallelFor& parallel_for = serial_for,
                                               const KeptWeights& kept = {});

  const ModelDescription& description() const { return description_; }
  const SegmentPlan& plan() const { return plan_; }
  const model_file::ModelFile& file() const { return file_; }
  U128 model_hash() const { return packed_.model_hash; }  // model_file::model_hash
  // All matrices of all ranks, in one piece.
  std::span<const std::byte> packed() const { return packed_.bytes(); }
  const RankWeights& rank(int rank) const { return ranks_[static_cast<size_t>(rank)]; }

  // One copy for all ranks.
  const LayerVectors& vectors(int layer) const { return vectors_[static_cast<size_t>(layer)]; }
  const std::vector<float>& output_norm() const { return output_norm_; }

  // out[hidden] = f32(bf16(embedding row)) * description().embedding_scale. Precondition: 0 <=
  // token < vocab.
  void embed(TokenId token, float* out) const;

  // cos and sin for positions [0, description().max_context), computed in double. Who serves less
  // than the file allows lowers max_context before load.
  kernels::RopeTable rope(int layer) const;

 private:
  Weights(model_file::ModelFile file, const ModelDescription& description, const SegmentPlan& plan)
      : file_(std::move(file)), description_(description), plan_(plan) {}
  friend class WeightLoader;

  model_file::ModelFile file_;
  ModelDescription description_;
  SegmentPlan plan_;
  PackedWeights packed_;  // what the matrices of the ranks lie in
  std::vector<RankWeights> ranks_;
  std::vector<LayerVectors> vectors_;
  std::vector<float> output_norm_;
  const model_file::TensorInfo* embedding_ = nullptr;
  struct RopeValues {
    std::vector<float> cos;  // [max_context, dims/2]
    std::vector<float> sin;
  };
  std::vector<RopeValues> ropes_;  // as ModelDescription::ropes
};

}  // namespace baton::model
