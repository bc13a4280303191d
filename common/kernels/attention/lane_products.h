#pragma once

// The products of attention with a lane type. Both are the same: c[r][n] += canonical block of 32
// (a: f32 of bf16 values, b: dwords of two bf16 that belong to neighbouring elements of the block).
// For scores a is the query and b a group of 32 keys, [dim / 2][32] dwords; for the output a is the
// probabilities and b the values, [16][head_dim] dwords.

#include "common/kernels/attention/attention_impl.h"

namespace baton::kernels {

// kRows x kVectors is the register tile: 2 * kRows * kVectors accumulators.
template <class L, int kRows, int kVectors>
struct LaneProducts {
  using F = typename L::F;
  using Work = AttentionWork<L>;
  static constexpr int kWidth = L::kWidth;
  static constexpr bool kWholeTile = false;

  struct Product {
    const float* a;  // [rows, a_stride]
    int a_stride;
    const uint32_t* b;  // [pairs, b_stride]
    int b_stride;
    ptrdiff_t ahead;  // bytes from b to what is fetched meanwhile
    int pairs;        // 1..16; the rest of the block counts as zero
    float* c;         // [rows, c_stride]
    int c_stride;
    int columns;
    bool first;  // c starts from +0
  };

  template <int V>
  [[gnu::always_inline]] static typename L::I load_column(const uint32_t* b, int v, int count) {
    return v + 1 < V ? L::load_dwords(b + v * kWidth) : L::load_dwords_first(b + v * kWidth, count);
  }

  // R rows x V vectors of columns from `column`; the last vector has `count` columns.
  template <int R, int V, bool kFetch>
  [[gnu::always_inline]] static void product_tile(const Product& p, int column, int count) {
    F even[R][V];
    F odd[R][V];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        even[r][v] = L::set1(0.0f);
        odd[r][v] = L::set1(0.0f);
      }
    }
    const uint32_t* b = p.b + column;
    const float* a = p.a;
    for (int i = 0; i < p.pairs; ++i, b += p.b_stride, a += 2) {
      // All even products, then all odd ones: half as many operands are alive at a time.
      F operand[V];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        if constexpr (kFetch) {
          __builtin_prefetch(reinterpret_cast<const char*>(b + v * kWidth) + p.ahead);
        }
        operand[v] = L::even_bf16(load_column<V>(b, v, count));
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const F a_even = L::set1(a[r * p.a_stride]);
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
          even[r][v] = L::fma(a_even, operand[v], even[r][v]);
        }
      }
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        operand[v] = L::odd_bf16(load_column<V>(b, v, count));
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const F a_odd = L::set1(a[r * p.a_stride + 1]);
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
          odd[r][v] = L::fma(a_odd, operand[v], odd[r][v]);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      float* c = p.c + r * p.c_stride + column;
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        F block = L::add(even[r][v], odd[r][v]);
        if (!p.first) {
          block = L::add(L::load(c + v * kWidth), block);
        }
        L::store(c + v * kWidth, block);  // whole vectors: c is padded
      }
    }
  }

  template <int R, bool kFetch>
  static void product_rows(const Product& p) {
    int column = 0;
    for (; column + kVectors * kWidth <= p.columns; column += kVectors * kWidth) {
      product_tile<R, kVectors, kFetch>(p, column, kWidth);
    }
    for (; column < p.columns; column += kWidth) {
      const int left = p.columns - column;
      product_tile<R, 1, kFetch>(p, column, left < kWidth ? left : kWidth);
    }
  }

  template <int R, bool kFetch>
  [[gnu::always_inline]] static void product_switch(const Product& p, int rows) {
    if constexpr (R > 1) {
      if (rows < R) {
        product_switch<R - 1, kFetch>(p, rows);
        return;
      }
    }
    product_rows<R, kFetch>(p);
  }

  // c[rows] += a[rows] * b, in register tiles of about equal height.
  static void product(Product p, int rows) {
    int tiles = (rows + kRows - 1) / kRows;
    for (bool fetch = true; tiles > 0; --tiles, fetch = false) {
      const int take = (rows + tiles - 1) / tiles;
      if (fetch) {
        product_switch<kRows, true>(p, take);
      } else {
        product_switch<kRows, false>(p, take);
      }
      p.a += take * p.a_stride;
      p.c += take * p.c_stride;
      rows -= take;
    }
  }

  static void prepare(const Work& t) {
    const int dim = t.params.kv.head_dim;
    for (int pair = 0; pair < t.pairs; ++pair) {
      const int row = (t.pair_begin + pair) / t.heads;
      const int head = t.params.q_head_begin + (t.pair_begin + pair) % t.heads;
      const uint16_t* q = t.params.q + static_cast<size_t>(row) * t.params.q_stride + head * dim;
      float* out = t.scratch.q + pair * t.scratch.columns;
      for (int d = 0; d < dim; d += kWidth) {
        const int count = dim - d < kWidth ? dim - d : kWidth;
        L::store_first(out + d, L::load_bf16_first(q + d, count), count);
      }
    }
  }

  [[gnu::always_inline]] static void store(float* scores, int j, F p) { L::store(scores + j, p); }

  static void scores(const Work& t, const Group& group, int column) {
    const int dim = t.params.kv.head_dim;
    const int pair = t.first_pair(group.key);
    for (int d = 0; d < dim; d += 32) {
      const int left = dim - d;
      const Product p{.a = t.scratch.q + pair * t.scratch.columns + d,
                      .a_stride = t.scratch.columns,
                      .b = group.data + d / 2 * kGroupKeys,
                      .b_stride = kGroupKeys,
                      .ahead = group.ahead_bytes(),
                      .pairs = (left < 32 ? left : 32) / 2,
                      .c = t.scratch.scores + pair * kScoreStride + column,
                      .c_stride = kScoreStride,
                      .columns = kGroupKeys,
                      .first = d == 0};
      product(p, t.pairs - pair);
    }
  }

  static void values(const Work& t, const Group& group, int column, bool first) {
    const int dim = t.params.kv.head_dim;
    const int pair = t.first_pair(group.key);
    const Product p{.a = t.scratch.scores + pair * kScoreStride + column,
                    .a_stride = kScoreStride,
                    .b = group.data,
                    .b_stride = dim,
                    .ahead = group.ahead_bytes(),
                    .pairs = kGroupKeys / 2,
                    .c = t.output(group.key / kSplitKeys, pair),
                    .c_stride = t.scratch.columns,
                    .columns = dim,
                    .first = first};
    product(p, t.pairs - pair);
  }
};

}  // namespace baton::kernels
