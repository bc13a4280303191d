#pragma once

// Attention over a lane type and a way to multiply, LaneProducts (lane_products.h) or TileProducts
// (tile_products.h). Included by one source per instruction-set level.

#include "common/kernels/attention/attention_levels.h"
#include "common/kernels/math/exp.h"
#include "common/kernels/math/sum.h"

namespace baton::kernels {

// 32 keys or values, and what is read after them. Groups lie anywhere in memory and the CPU's own
// prefetching ends with each, so the products fetch the next one while they work on this.
struct Group {
  int key = 0;  // the first
  const uint32_t* data = nullptr;
  const uint32_t* next = nullptr;  // of the same size; `data` if there is none

  [[gnu::always_inline]] ptrdiff_t ahead_bytes() const {
    return reinterpret_cast<const char*>(next) - reinterpret_cast<const char*>(data);
  }
};

// Pairs [pair_begin, pair_begin + pairs) of a call, and where their data lie. A template so that
// its functions are other ones at each level.
template <class L>
struct AttentionWork {
  const AttentionParams& params;
  const AttentionScratch& scratch;
  int heads;
  int pair_begin;
  int pairs;

  int position(int pair) const { return params.first_position + (pair_begin + pair) / heads; }
  // The first key that the pair sees, and the first one of the tile's first group.
  int first_key(int pair) const {
    const int outside = position(pair) + 1 - params.window;
    return params.window > 0 && outside > 0 ? outside : 0;
  }
  int first_group() const { return first_key(0) / kGroupKeys * kGroupKeys; }
  // The first pair of the tile that sees `key`; the later ones see it too, or have it before their
  // window and get the probability 0 for it.
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
    return scratch.outputs +
           (static_cast<size_t>(split) * scratch.pair_stride + pair) * scratch.columns;
  }
};

// Products is made once per tile and has
//   prepare(work)                       before all others: takes the queries
//   scores(work, group, column)         unscaled scores of a group of keys, for the pairs that
//                                       see it, to columns [column, column + 32)
//   store(row of scores, j, p)          p, already bf16 values, of keys [j, j + kWidth); may
//                                       overwrite the scores before j + kWidth
//   kWholeTile                          values() reads the probabilities of all keys of the tile
//                                       (else of the groups that the pair sees)
//   values(work, group, column, first)  adds the group's part to the outputs of its split, or
//                                       begins them with the first group
template <class L, class Products>
struct AttentionImpl {
  using F = typename L::F;
  using Work = AttentionWork<L>;
  static constexpr int kWidth = L::kWidth;

  // A pair's visible keys [first, end) among the keys of a split.
  struct Visible {
    int first;
    int end;
  };
  static Visible visible_in(const Work& t, int pair, int begin) {
    const int first = t.first_key(pair) - begin;
    const int end = t.position(pair) + 1 - begin;
    return {first > 0 ? first : 0, end < kSplitKeys ? end : kSplitKeys};
  }

  // x where lane j + i is visible, else `otherwise`.
  [[gnu::always_inline]] static F mask(Visible visible, int j, F x, F otherwise) {
    const int left = visible.end - j;
    const int before = visible.first - j;
    if ((left < kWidth) | (before > 0)) {
      x = L::select(L::first(left < 0 ? 0 : left < kWidth ? left : kWidth), x, otherwise);
      x = L::select(L::first(before < 0 ? 0 : before < kWidth ? before : kWidth), otherwise, x);
    }
    return x;
  }

  static float max_score(const float* s, Visible visible) {
    const F lowest = L::set1(-__builtin_inff());
    F m = lowest;
    for (int j = visible.first / kWidth * kWidth; j < visible.end; j += kWidth) {
      m = L::max(mask(visible, j, L::load(s + j), lowest), m);
    }
    float lanes[kWidth];
    L::store(lanes, m);
    float result = lanes[0];
    for (int i = 1; i < kWidth; ++i) {
      result = result > lanes[i] ? result : lanes[i];
    }
    return result;
  }

  // Stores bf16(exp(s[j] * scale - m)) of visible keys, zero for the others of [keys.first, end of
  // the group of key keys.end - 1); returns the sum of these. keys.first is the begin of a group.
  static float probabilities(float* s, Visible visible, Visible keys, float scale, float m) {
    StridedSum<L> sum;
    const int end = (keys.end + kGroupKeys - 1) / kGroupKeys * kGroupKeys;
    for (int base = keys.first; base < end; base += 16) {
      for (int v = 0; v < StridedSum<L>::kVectors; ++v) {
        const int j = base + v * kWidth;
        const F score = L::mul(L::load(s + j), L::set1(scale));
        F p = L::round_bf16(exp_nonpositive<L>(L::sub(score, L::set1(m))));
        p = mask(visible, j, p, L::set1(0.0f));
        Products::store(s, j, p);
        sum.partial[v] = L::add(sum.partial[v], p);
      }
    }
    return sum.fold();
  }

  // A split is read as all its keys, then all its values.
  static Group keys_at(const Work& t, int begin, int j, Visible keys) {
    const int next = j + kGroupKeys;
    return {.key = begin + j,
            .data = t.k_group(begin + j),
            .next = next < keys.end ? t.k_group(begin + next) : t.v_group(begin + keys.first)};
  }
  static Group values_at(const Work& t, int begin, int j, Visible keys) {
    const int next = j + kGroupKeys;
    const uint32_t* data = t.v_group(begin + j);
    const bool more = begin + next <= t.position(t.pairs - 1);
    return {.key = begin + j,
            .data = data,
            .next = next < keys.end ? t.v_group(begin + next)
                    : more          ? t.k_group(begin + next)
                                    : data};
  }

  // Keys of the split that some pair of the tile sees, rounded down to the begin of a group.
  static void one_split(Products& products, const Work& t, int split, Visible keys) {
    const int begin = split * kSplitKeys;
    for (int j = keys.first; j < keys.end; j += kGroupKeys) {
      products.scores(t, keys_at(t, begin, j, keys), j);
    }
    for (int pair = t.first_pair(begin); pair < t.pairs; ++pair) {
      const Visible visible = visible_in(t, pair, begin);
      float* s = t.scratch.scores + pair * kScoreStride;
      // Rounding is monotone: this is the maximum of the scaled scores.
      const float m = max_score(s, visible) * t.params.scale;
      const Visible all = {keys.first, Products::kWholeTile ? keys.end : visible.end};
      t.scratch.maxima[split * t.scratch.pair_stride + pair] = m;
      t.scratch.sums[split * t.scratch.pair_stride + pair] =
          probabilities(s, visible, all, t.params.scale, m);
    }
    for (int j = keys.first; j < keys.end; j += kGroupKeys) {
      products.values(t, values_at(t, begin, j, keys), j, j == keys.first);
    }
  }

  // Merges the splits of a pair in ascending order and stores the rounded output.
  static void merge(const Work& t, int pair) {
    const int dim = t.params.kv.head_dim;
    const int first = t.first_key(pair) / kSplitKeys;
    const int splits = t.position(pair) / kSplitKeys + 1;
    const int stride = t.scratch.pair_stride;
    float* maxima = t.scratch.maxima + pair;
    const float* sums = t.scratch.sums + pair;
    float m = maxima[first * stride];
    for (int s = first + 1; s < splits; ++s) {
      const float other = maxima[s * stride];
      m = m > other ? m : other;
    }
    float total = 0.0f;
    for (int s = first; s < splits; ++s) {
      float* weight = maxima + s * stride;  // in place of the maximum
      *weight = exp_canonical(*weight - m);
      total = __builtin_fmaf(*weight, sums[s * stride], total);
    }
    const F inverse = L::set1(1.0f / total);
    const int row = (t.pair_begin + pair) / t.heads;
    const int head = t.params.q_head_begin + (t.pair_begin + pair) % t.heads;
    uint16_t* out = t.params.out + static_cast<size_t>(row) * t.params.out_stride + head * dim;
    for (int d = 0; d < dim; d += kWidth) {
      F o = L::set1(0.0f);
      for (int s = first; s < splits; ++s) {
        o = L::fma(L::set1(maxima[s * stride]), L::load(t.output(s, pair) + d), o);
      }
      const int left = dim - d;
      L::store_bf16_first(out + d, L::mul(o, inverse), left < kWidth ? left : kWidth);
    }
  }

  static Work work(const AttentionParams& params, PairRange pairs,
                   const AttentionScratch& scratch) {
    return {.params = params,
            .scratch = scratch,
            .heads = params.q_head_end - params.q_head_begin,
            .pair_begin = pairs.begin,
            .pairs = pairs.end - pairs.begin};
  }

  static void splits(const AttentionParams& params, PairRange pairs, SplitRange range,
                     const AttentionScratch& scratch) {
    const Work t = work(params, pairs, scratch);
    Products products;
    products.prepare(t);
    const int keys = t.position(t.pairs - 1) + 1;
    const int first = t.first_group();
    const int seen = first / kSplitKeys;
    for (int split = range.begin > seen ? range.begin : seen;
         split < range.end && split * kSplitKeys < keys; ++split) {
      const int before = first - split * kSplitKeys;
      const int left = keys - split * kSplitKeys;
      one_split(products, t, split,
                {before > 0 ? before : 0, left < kSplitKeys ? left : kSplitKeys});
    }
  }

  static void merge_pairs(const AttentionParams& params, PairRange pairs,
                          const AttentionScratch& scratch) {
    const Work t = work(params, pairs, scratch);
    for (int pair = 0; pair < t.pairs; ++pair) {
      merge(t, pair);
    }
  }

  static constexpr AttentionTile tile() { return {.splits = splits, .merge = merge_pairs}; }
};

}  // namespace baton::kernels
