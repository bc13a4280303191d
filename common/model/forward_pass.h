#pragma once

// Inside of forward.h: the pass as one thread runs it.

#include <functional>
#include <span>

#include "common/kernels/attention/attention.h"
#include "common/model/forward_state.h"

namespace baton::model {

class ForwardPass final {
 public:
  ForwardPass(const ForwardState& state, device::TeamThread& thread, const ForwardHooks& hooks);

  void run();

 private:
  void embed();
  void attention_half(int layer);
  void ffn_half(int layer);
  void head();

  // residual += the sum of `parts` (or its norm), then x = norm of the residual, over this thread's
  // share of all rows.
  struct Norm {
    std::span<const float* const> parts = {};
    const float* part_weight = nullptr;
    const float* weight = nullptr;
  };
  void norm(const Norm& norm);
  kernels::ResidualNormParams norm_params(const Norm& norm) const;
  // What the layer before left in the feed-forward parts, then the norm.
  Norm after_ffn(int layer_before, const std::vector<float>& weight) const;
  void store_kv(int layer);
  void attend(int layer);
  void attend_part(const AttentionItem& item, const kernels::AttentionParams& params,
                   std::byte* scratch);
  void gate_up(const Projection& projection);
  // y[rows] = x · projectionᵀ, shared out within the rank.
  struct Rows {
    const uint16_t* x = nullptr;
    int x_stride = 0;
    int count = 0;
    float* y = nullptr;
    int y_stride = 0;
  };
  void column_product(const Projection& projection, const Rows& rows);
  // One partial result per segment of the rank, shared out within the rank.
  void row_product(std::span<const SegmentMatrix> segments, const uint16_t* x, int x_stride);
  // Panels [begin, end) in this thread alone; y is where panel `begin` goes.
  void multiply(const Projection& projection, int begin, int end, const Rows& rows);

  kernels::KvLayerView kv_view(int layer) const;
  int group_of(int layer) const { return s_.pools.front().layout().group_of(layer); }
  // Runs body(i) for i in [0, n), each on one thread of the rank.
  template <typename Body>
  void share_out(int n, const Body& body);

  const ForwardState& s_;
  device::TeamThread& thread_;
  const ForwardHooks& hooks_;
  const ModelDescription& model_;
  const RankWeights& weights_;
  const RankState& rank_;
  device::Isa isa_;
  int rows_;
  int phase_ = 0;
};

}  // namespace baton::model
