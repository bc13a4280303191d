#pragma once

// The products of attention with AMX tiles. Groups of keys and values have the layout of weight
// blocks (pairs of neighbouring elements in a dword), so tiles read them where they lie in the
// pool; only head dims that fill no whole tile are copied and padded with zeros.
//
// Queries and probabilities stay bf16. Probabilities take the place of the scores.

#include <cstring>

#include "common/kernels/attention/attention_impl.h"
#include "common/kernels/matmul/level_kernels.h"

namespace baton::kernels {

// Unit::multiply(const TileArgs&, TileRows&) and Unit::release() are amx_multiply and amx_release,
// or what stands for them; kChainOrder says that it wants queries and probabilities in chain order.
template <class L, class Unit>
class TileProducts {
 public:
  using F = typename L::F;
  using Work = AttentionWork<L>;
  static constexpr bool kWholeTile = true;

  ~TileProducts() { Unit::release(); }

  void prepare(const Work& t) {
    const int dim = t.params.kv.head_dim;
    for (int pair = 0; pair < t.pairs; ++pair) {
      const int row = (t.pair_begin + pair) / t.heads;
      const int head = t.params.q_head_begin + (t.pair_begin + pair) % t.heads;
      uint16_t* out = queries(t, pair);
      std::memcpy(out, t.params.q + static_cast<size_t>(row) * t.params.q_stride + head * dim,
                  sizeof(uint16_t) * static_cast<size_t>(dim));
      std::memset(out + dim, 0, sizeof(uint16_t) * static_cast<size_t>(t.scratch.columns - dim));
      if constexpr (Unit::kChainOrder) {
        L::copy_in_chain_order(out, t.scratch.columns, out);
      }
    }
  }

  [[gnu::always_inline]] static void store(float* scores, int j, F p) {
    uint16_t* out = reinterpret_cast<uint16_t*>(scores) + j;
    if constexpr (Unit::kChainOrder) {
      L::store_rounded_bf16_in_chain_order(out, p);
    } else {
      L::store_rounded_bf16(out, p);
    }
  }

  void scores(const Work& t, const Group& group, int column) {
    const uint32_t* k = group.data;
    if (t.params.kv.head_dim % 32 != 0) {
      const int pairs = t.params.kv.head_dim / 2;
      k = padded(t, k, pairs, kGroupKeys, t.scratch.columns / 2, kGroupKeys);
    }
    const int pair = first_row(t, group.key);
    const TileArgs args{.weights = {k, k + kLanes},
                        .weight_stride = kGroupKeys,
                        .ahead_bytes = group.ahead_bytes(),
                        .blocks = t.scratch.columns / 32,
                        .x = queries(t, pair),
                        .x_stride = t.scratch.columns,
                        .rows = t.pairs - pair,
                        .y = t.scratch.scores + pair * kScoreStride + column,
                        .y_stride = kScoreStride,
                        .accumulate = false};
    Unit::multiply(args, rows_);
  }

  void values(const Work& t, const Group& group, int column, bool first) {
    const int dim = t.params.kv.head_dim;
    const uint32_t* v = group.data;
    int v_stride = dim;
    if (dim % kLanes != 0) {
      v_stride = t.scratch.columns;
      v = padded(t, v, kGroupKeys / 2, dim, kGroupKeys / 2, v_stride);
    }
    const int pair = first_row(t, group.key);
    TileArgs args{.weight_stride = v_stride,
                  .ahead_bytes = group.ahead_bytes(),
                  .blocks = 1,
                  .x_stride = 2 * kScoreStride,
                  .rows = t.pairs - pair,
                  .y_stride = t.scratch.columns,
                  .accumulate = !first};
    args.x = reinterpret_cast<const uint16_t*>(t.scratch.scores + pair * kScoreStride) + column;
    for (int d = 0; d < dim; d += 2 * kLanes) {
      args.weights[0] = v + d;
      args.weights[1] = d + kLanes < dim ? v + d + kLanes : nullptr;
      args.y = t.output(group.key / kSplitKeys, pair) + d;
      Unit::multiply(args, rows_);
    }
  }

 private:
  // Whole tiles of rows, so that the tile configuration changes seldom. Rows before the first pair
  // that sees the group add zeros.
  static int first_row(const Work& t, int key) { return t.first_pair(key) / 16 * 16; }

  static uint16_t* queries(const Work& t, int pair) {
    return reinterpret_cast<uint16_t*>(t.scratch.q) + pair * t.scratch.columns;
  }

  // A copy of in [rows, columns] as [out_rows, out_columns] with zeros around it.
  static const uint32_t* padded(const Work& t, const uint32_t* in, int rows, int columns,
                                int out_rows, int out_columns) {
    uint32_t* out = t.scratch.padded;
    std::memset(out, 0, sizeof(uint32_t) * static_cast<size_t>(out_rows) * out_columns);
    for (int row = 0; row < rows; ++row) {
      std::memcpy(out + row * out_columns, in + row * columns,
                  sizeof(uint32_t) * static_cast<size_t>(columns));
    }
    return out;
  }

  TileRows rows_;
};

}  // namespace baton::kernels
