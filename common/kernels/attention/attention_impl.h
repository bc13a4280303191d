#pragma once

// Attention over a lane type. Included by one source per instruction-set level.
//
// Both products are the same: c[r][n] += canonical block of 32 (a: f32 of bf16 values, b: dwords of
// two bf16 that belong to neighbouring elements of the block). For scores a is the query and b a
// group of 32 keys, [dim / 2][32] dwords; for the output a is the probabilities and b the values,
// [16][head_dim] dwords.

#include "common/kernels/attention/attention_levels.h"
#include "common/kernels/math/exp.h"
#include "common/kernels/math/sum.h"

namespace baton::kernels {

// kRows x kVectors is the register tile: 2 * kRows * kVectors accumulators.
template <class L, int kRows, int kVectors>
struct AttentionImpl {
  using F = typename L::F;
  static constexpr int kWidth = L::kWidth;

  struct Product {
    const float* a;  // [rows, a_stride]
    int a_stride;
    const uint32_t* b;  // [pairs, b_stride]
    int b_stride;
    int pairs;  // 1..16; the rest of the block counts as zero
    float* c;   // [rows, c_stride]
    int c_stride;
    int columns;
    bool first;  // c starts from +0
  };

  template <int V>
  [[gnu::always_inline]] static typename L::I load_column(const uint32_t* b, int v, int count) {
    return v + 1 < V ? L::load_dwords(b + v * kWidth) : L::load_dwords_first(b + v * kWidth, count);
  }

  // R rows x V vectors of columns from `column`; the last vector has `count` columns.
  template <int R, int V>
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

  template <int R>
  static void product_rows(const Product& p) {
    int column = 0;
    for (; column + kVectors * kWidth <= p.columns; column += kVectors * kWidth) {
      product_tile<R, kVectors>(p, column, kWidth);
    }
    for (; column < p.columns; column += kWidth) {
      const int left = p.columns - column;
      product_tile<R, 1>(p, column, left < kWidth ? left : kWidth);
    }
  }

  template <int R>
  [[gnu::always_inline]] static void product_switch(const Product& p, int rows) {
    if constexpr (R > 1) {
      if (rows < R) {
        product_switch<R - 1>(p, rows);
        return;
      }
    }
    product_rows<R>(p);
  }

  // c[rows] += a[rows] * b, in register tiles of about equal height.
  static void product(Product p, int rows) {
    int tiles = (rows + kRows - 1) / kRows;
    for (; tiles > 0; --tiles) {
      const int take = (rows + tiles - 1) / tiles;
      product_switch<kRows>(p, take);
      p.a += take * p.a_stride;
      p.c += take * p.c_stride;
      rows -= take;
    }
  }

  struct Tile {
    const AttentionParams& params;
    const AttentionScratch& scratch;
    int heads;
    int pair_begin;
    int pairs;

    int position(int pair) const { return params.first_position + (pair_begin + pair) / heads; }
    // The first pair of the tile that sees `key`; the later ones see it too.
    int first_pair(int key) const {
      const int pair = (key - params.first_position) * heads - pair_begin;
      return pair > 0 ? pair : 0;
    }
    const uint32_t* k_group(int key) const {
      const int slot = key % params.kv.block_tokens;
      return reinterpret_cast<const uint32_t*>(params.kv.k_group(
          params.blocks[key / params.kv.block_tokens], params.kv_head, slot / kGroupKeys));
    }
    const uint32_t* v_group(int key) const {
      const int slot = key % params.kv.block_tokens;
      return reinterpret_cast<const uint32_t*>(params.kv.v_group(
          params.blocks[key / params.kv.block_tokens], params.kv_head, slot / kGroupKeys));
    }
    float* output(int split, int pair) const {
      return scratch.outputs + (static_cast<size_t>(split) * kTilePairs + pair) * scratch.columns;
    }
  };

  static void expand_queries(const Tile& t) {
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

  static void scores_of_group(const Tile& t, int key, int column) {
    const int dim = t.params.kv.head_dim;
    const int pair = t.first_pair(key);
    const uint32_t* k = t.k_group(key);
    for (int d = 0; d < dim; d += 32) {
      const int left = dim - d;
      const Product p{.a = t.scratch.q + pair * t.scratch.columns + d,
                      .a_stride = t.scratch.columns,
                      .b = k + d / 2 * kGroupKeys,
                      .b_stride = kGroupKeys,
                      .pairs = (left < 32 ? left : 32) / 2,
                      .c = t.scratch.scores + pair * kScoreStride + column,
                      .c_stride = kScoreStride,
                      .columns = kGroupKeys,
                      .first = d == 0};
      product(p, t.pairs - pair);
    }
  }

  static void values_of_group(const Tile& t, int key, int column, int split) {
    const int dim = t.params.kv.head_dim;
    const int pair = t.first_pair(key);
    const Product p{.a = t.scratch.scores + pair * kScoreStride + column,
                    .a_stride = kScoreStride,
                    .b = t.v_group(key),
                    .b_stride = dim,
                    .pairs = kGroupKeys / 2,
                    .c = t.output(split, pair),
                    .c_stride = t.scratch.columns,
                    .columns = dim,
                    .first = column == 0};
    product(p, t.pairs - pair);
  }

  static float max_score(const float* s, int visible) {
    const F lowest = L::set1(-__builtin_inff());
    F m = lowest;
    for (int j = 0; j < visible; j += kWidth) {
      const F x = L::load(s + j);
      const int left = visible - j;
      m = L::max(left < kWidth ? L::select(L::first(left), x, lowest) : x, m);
    }
    float lanes[kWidth];
    L::store(lanes, m);
    float result = lanes[0];
    for (int i = 1; i < kWidth; ++i) {
      result = result > lanes[i] ? result : lanes[i];
    }
    return result;
  }

  // s[j] becomes bf16(exp(s[j] * scale - m)), zero for keys [visible, end of the last group);
  // returns the sum of these.
  static float probabilities(float* s, int visible, float scale, float m) {
    StridedSum<L> sum;
    const int end = (visible + kGroupKeys - 1) / kGroupKeys * kGroupKeys;
    for (int base = 0; base < end; base += 16) {
      for (int v = 0; v < StridedSum<L>::kVectors; ++v) {
        const int j = base + v * kWidth;
        const F score = L::mul(L::load(s + j), L::set1(scale));
        F p = L::round_bf16(exp_nonpositive<L>(L::sub(score, L::set1(m))));
        const int left = visible - j;
        if (left < kWidth) {
          p = L::select(L::first(left > 0 ? left : 0), p, L::set1(0.0f));
        }
        L::store(s + j, p);
        sum.partial[v] = L::add(sum.partial[v], p);
      }
    }
    return sum.fold();
  }

  static void one_split(const Tile& t, int split, int keys) {
    const int begin = split * kSplitKeys;
    for (int j = 0; j < keys; j += kGroupKeys) {
      scores_of_group(t, begin + j, j);
    }
    for (int pair = t.first_pair(begin); pair < t.pairs; ++pair) {
      const int seen = t.position(pair) + 1 - begin;
      const int visible = seen < kSplitKeys ? seen : kSplitKeys;
      float* s = t.scratch.scores + pair * kScoreStride;
      // Rounding is monotone: this is the maximum of the scaled scores.
      const float m = max_score(s, visible) * t.params.scale;
      t.scratch.maxima[split * kTilePairs + pair] = m;
      t.scratch.sums[split * kTilePairs + pair] = probabilities(s, visible, t.params.scale, m);
    }
    for (int j = 0; j < keys; j += kGroupKeys) {
      values_of_group(t, begin + j, j, split);
    }
  }

  // Merges the splits of a pair in ascending order and stores the rounded output.
  static void merge(const Tile& t, int pair) {
    const int dim = t.params.kv.head_dim;
    const int splits = t.position(pair) / kSplitKeys + 1;
    float* maxima = t.scratch.maxima + pair;
    const float* sums = t.scratch.sums + pair;
    float m = maxima[0];
    for (int s = 1; s < splits; ++s) {
      const float other = maxima[s * kTilePairs];
      m = m > other ? m : other;
    }
    float total = 0.0f;
    for (int s = 0; s < splits; ++s) {
      float* weight = maxima + s * kTilePairs;  // in place of the maximum
      *weight = exp_canonical(*weight - m);
      total = __builtin_fmaf(*weight, sums[s * kTilePairs], total);
    }
    const F inverse = L::set1(1.0f / total);
    const int row = (t.pair_begin + pair) / t.heads;
    const int head = t.params.q_head_begin + (t.pair_begin + pair) % t.heads;
    uint16_t* out = t.params.out + static_cast<size_t>(row) * t.params.out_stride + head * dim;
    for (int d = 0; d < dim; d += kWidth) {
      F o = L::set1(0.0f);
      for (int s = 0; s < splits; ++s) {
        o = L::fma(L::set1(maxima[s * kTilePairs]), L::load(t.output(s, pair) + d), o);
      }
      const int left = dim - d;
      L::store_bf16_first(out + d, L::mul(o, inverse), left < kWidth ? left : kWidth);
    }
  }

  static void tile(const AttentionParams& params, int pair_begin, int pair_end,
                   const AttentionScratch& scratch) {
    const Tile t{.params = params,
                 .scratch = scratch,
                 .heads = params.q_head_end - params.q_head_begin,
                 .pair_begin = pair_begin,
                 .pairs = pair_end - pair_begin};
    expand_queries(t);
    const int keys = t.position(t.pairs - 1) + 1;
    for (int split = 0; split * kSplitKeys < keys; ++split) {
      const int left = keys - split * kSplitKeys;
      one_split(t, split, left < kSplitKeys ? left : kSplitKeys);
    }
    for (int pair = 0; pair < t.pairs; ++pair) {
      merge(t, pair);
    }
  }
};

}  // namespace baton::kernels
