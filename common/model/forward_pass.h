#pragma once

// Inside of forward.h: the pass as one thread runs it. It is a row of regions with a barrier after
// each. What threads do in a region is shared out in items, so that any number of them can take
// part, and a guest (device/compute_team.h) can come and go.

#include <functional>
#include <span>

#include "common/kernels/attention/attention.h"
#include "common/kernels/small/small_ops.h"
#include "common/model/forward_state.h"

namespace baton::model {

class ForwardPass final {
 public:
  ForwardPass(const ForwardState& state, device::TeamThread& thread, const ForwardHooks& hooks);

  void run();

 private:
  void embed(int begin, int end);
  void attention_half(int layer);
  void ffn_half(int layer);
  void head();

  // residual += the sum of `parts` (or its norm), then x = norm of the residual; all rows are
  // shared out over all ranks. `first`: the rows are embedded before.
  struct Norm {
    std::span<const float* const> parts = {};
    const float* part_weight = nullptr;
    const float* weight = nullptr;
  };
  void norm(const Norm& norm, bool first);
  kernels::ResidualNormParams norm_params(const Norm& norm) const;
  // What the layer before left in the feed-forward parts, then the norm.
  Norm after_ffn(int layer_before, const std::vector<float>& weight) const;
  void norm_rows(const Norm& norm, int begin, int end);
  // Products of the batch with q, k and v; then RoPE and the store of K and V, head by head.
  void qkv(int layer);
  void qkv_by_heads(const Projection& projection, kernels::QkvParams params);
  kernels::QkvParams qkv_params(int layer) const;
  void attend(int layer);
  // Whether it was the last part, so that the outputs are there.
  bool attend_part(const AttentionItem& item, const kernels::AttentionParams& params,
                   std::byte* scratch);
  void gate_up(const Projection& projection);
  // Rows that a product reads: bf16, and their 8-bit codes or null.
  struct Operand {
    const uint16_t* x = nullptr;
    int stride = 0;  // elements, a multiple of 32
    kernels::CodeBlock* codes = nullptr;

    int code_stride() const { return stride / kernels::kBlockK; }
    // From a row and a column on, which is a multiple of 32.
    Operand at(int row, int column) const;
  };
  // Where a batch of `count` rows is coded: operands with codes; to be made by code() once x is.
  Operand operand(const AlignedArray<uint16_t>& x, int stride,
                  const AlignedArray<kernels::CodeBlock>& codes, int count) const;
  Operand normed_rows() const;
  Operand attention_rows() const;
  Operand ffn_rows() const;
  // Columns [0, columns) of rows [0, rows); in whole blocks.
  static void code(const Operand& operand, int rows, int columns);

  // y[rows] = x · projectionᵀ, shared out within the rank.
  struct Rows {
    Operand x;
    int count = 0;
    float* y = nullptr;
    int y_stride = 0;
  };
  Rows qkv_rows(const Projection& projection) const;
  void column_product(const Projection& projection, const Rows& rows);
  // One partial result per segment of the rank, shared out within the rank; then, of few rows, the
  // norm of their sum by whoever is last.
  void row_product(std::span<const SegmentMatrix> segments, const Operand& x, const Norm* after);
  // Counts one of `items`, which every rank has; true of the very last.
  bool is_last_item(int items) const;
  // Panels [begin, end) in this thread alone; y is where panel `begin` goes.
  void multiply(const Projection& projection, int begin, int end, const Rows& rows);

  LogitsChunk logits_chunk(int first) const;
  kernels::KvLayerView kv_view(int layer) const;
  int group_of(int layer) const { return s_.pools.front().layout().group_of(layer); }
  // Runs the body if this thread is present, and meets the others of the rank, or of all ranks.
  // What steps write is read in bodies only.
  enum class Meet : uint8_t { kRank, kTeam };
  template <typename Body>
  void region(Meet meet, const Body& body);
  // Runs body(i) for i in [0, n), each on one thread of the rank. Once in a region.
  template <typename Body>
  void share_out(int n, const Body& body);
  // The same with body(begin, end), which together are `rows`.
  template <typename Body>
  void share_out_rows(const Range& rows, const Body& body);

  const ForwardState& s_;
  device::TeamThread& thread_;
  const ForwardHooks& hooks_;
  const ModelDescription& model_;
  const RankWeights& weights_;
  const RankState& rank_;
  device::Isa isa_;
  int rows_;
  bool
      few_rows_;  // norms are made at the end of the product before them, without a barrier between
  int logits_rows_;
  static constexpr int kCounters = device::TeamThread::kCounters;
  int region_ = 0;
};

}  // namespace baton::model
