#pragma once

// The small operations over a lane type. Included by one source per instruction-set level.

#include <cstring>

#include "common/kernels/math/exp.h"
#include "common/kernels/math/sum.h"
#include "common/kernels/small/small_ops_levels.h"

namespace baton::kernels {

template <class L>
struct SmallOpsImpl {
  using F = typename L::F;
  static constexpr int kWidth = L::kWidth;

  // ((part0 + part1) + part2)... of columns [j, j + count) of the row that starts at `offset`.
  [[gnu::always_inline]] static F sum_parts(const float* const* parts, size_t n_parts,
                                            size_t offset, int count) {
    F t = L::load_first(parts[0] + offset, count);
    for (size_t i = 1; i < n_parts; ++i) {
      t = L::add(t, L::load_first(parts[i] + offset, count));
    }
    return t;
  }

  // Adds the parts to a row of the residual; returns the sum of its squares.
  static float add_parts(const ResidualNormParams& p, int row) {
    float* residual = p.residual + static_cast<size_t>(row) * p.n;
    const size_t part_row = static_cast<size_t>(row) * p.part_stride;
    const float* const* parts = p.parts.data();
    const size_t n_parts = p.parts.size();
    StridedSum<L> squares;
    for (int base = 0; base < p.n; base += 16) {
      for (int v = 0; v < StridedSum<L>::kVectors; ++v) {
        const int j = base + v * kWidth;
        const int count = p.n - j < kWidth ? p.n - j : kWidth;
        if (count <= 0) {
          break;
        }
        F x = L::load_first(residual + j, count);
        if (n_parts > 0) {
          x = L::add(x, sum_parts(parts, n_parts, part_row + j, count));
          L::store_first(residual + j, x, count);
        }
        squares.partial[v] = L::fma(x, x, squares.partial[v]);
      }
    }
    return squares.fold();
  }

  static void residual_norm(const ResidualNormParams& p, int row_begin, int row_end) {
    for (int row = row_begin; row < row_end; ++row) {
      const float squares = add_parts(p, row);
      if (p.weight == nullptr) {
        continue;
      }
      const float mean = squares / static_cast<float>(p.n);
      const F inverse = L::set1(1.0f / __builtin_sqrtf(mean + p.eps));
      const float* residual = p.residual + static_cast<size_t>(row) * p.n;
      uint16_t* out = p.x + static_cast<size_t>(row) * p.x_stride;
      for (int j = 0; j < p.n; j += kWidth) {
        const int count = p.n - j < kWidth ? p.n - j : kWidth;
        const F x = L::mul(L::load_first(residual + j, count), inverse);
        L::store_bf16_first(out + j, L::mul(x, L::load_first(p.weight + j, count)), count);
      }
      std::memset(out + p.n, 0, sizeof(uint16_t) * static_cast<size_t>(p.x_stride - p.n));
    }
  }

  static void swiglu(const SwigluParams& p, int row_begin, int row_end) {
    for (int row = row_begin; row < row_end; ++row) {
      const float* gate = p.gate + static_cast<size_t>(row) * p.stride;
      const float* up = p.up + static_cast<size_t>(row) * p.stride;
      uint16_t* out = p.h + static_cast<size_t>(row) * p.h_stride;
      for (int j = 0; j < p.n; j += kWidth) {
        const int count = p.n - j < kWidth ? p.n - j : kWidth;
        const F silu = silu_canonical<L>(L::load_first(gate + j, count));
        L::store_bf16_first(out + j, L::mul(silu, L::load_first(up + j, count)), count);
      }
      std::memset(out + p.n, 0, sizeof(uint16_t) * static_cast<size_t>(p.h_stride - p.n));
    }
  }

  static void exp_minus(const float* x, float shift, float* out, int n) {
    for (int j = 0; j < n; j += kWidth) {
      const int count = n - j < kWidth ? n - j : kWidth;
      const F d = L::sub(L::load_first(x + j, count), L::set1(shift));
      L::store_first(out + j, exp_canonical<L>(d), count);
    }
  }

  // x0' = fma(x0, c, -(x1 * s)), x1' = fma(x1, c, x0 * s), one pair.
  [[gnu::always_inline]] static void rotate_pair(float x0, float x1, float c, float s, float* out0,
                                                 float* out1) {
    *out0 = __builtin_fmaf(x0, c, -(x1 * s));
    *out1 = __builtin_fmaf(x1, c, x0 * s);
  }

  static void rotate_interleaved(const float* x, const float* cos, const float* sin, int pairs,
                                 float* out) {
    int i = 0;
    if constexpr (kWidth > 1) {
      for (; i + kWidth / 2 <= pairs; i += kWidth / 2) {
        const F v = L::load(x + 2 * i);
        const F cross = L::mul(L::swap_pairs(v), L::load_twice(sin + i));
        L::store(out + 2 * i, L::fma_sub_add(v, L::load_twice(cos + i), cross));
      }
    }
    for (; i < pairs; ++i) {
      rotate_pair(x[2 * i], x[2 * i + 1], cos[i], sin[i], out + 2 * i, out + 2 * i + 1);
    }
  }

  static void rotate_halves(const float* x, const float* cos, const float* sin, int pairs,
                            float* out) {
    for (int i = 0; i < pairs; i += kWidth) {
      const int count = pairs - i < kWidth ? pairs - i : kWidth;
      const F x0 = L::load_first(x + i, count);
      const F x1 = L::load_first(x + pairs + i, count);
      const F c = L::load_first(cos + i, count);
      const F s = L::load_first(sin + i, count);
      const F minus = L::mul(L::mul(x1, s), L::set1(-1.0f));  // exact
      L::store_first(out + i, L::fma(x0, c, minus), count);
      L::store_first(out + pairs + i, L::fma(x1, c, L::mul(x0, s)), count);
    }
  }

  // One head of a row: RoPE, then bf16.
  static void rotate_head(const QkvParams& p, int row, const float* x, uint16_t* out) {
    const int dim = p.kv.head_dim;
    const int pairs = p.rope.dims / 2;
    const size_t table = static_cast<size_t>(p.positions[row]) * pairs;
    float rotated[kMaxHeadDim];
    if (p.rope.interleaved) {
      rotate_interleaved(x, p.rope.cos + table, p.rope.sin + table, pairs, rotated);
    } else {
      rotate_halves(x, p.rope.cos + table, p.rope.sin + table, pairs, rotated);
    }
    round_row(rotated, 2 * pairs, out);
    round_row(x + 2 * pairs, dim - 2 * pairs, out + 2 * pairs);
  }

  [[gnu::always_inline]] static void round_row(const float* x, int n, uint16_t* out) {
    for (int j = 0; j < n; j += kWidth) {
      const int count = n - j < kWidth ? n - j : kWidth;
      L::store_bf16_first(out + j, L::load_first(x + j, count), count);
    }
  }

  // Writes one slot of K and V. pairs32: K [dim/2][32][2], V [16][dim][2].
  static void store_slot(const QkvParams& p, int row, const float* k, const float* v, int head) {
    const int dim = p.kv.head_dim;
    const int slot = p.positions[row] % p.kv.block_tokens;
    const BlockId block = p.slot_block[row];
    uint16_t rounded[kMaxHeadDim];

    rotate_head(p, row, k, rounded);
    std::byte* k_group = p.kv.k_group(block, head, slot / 32) + sizeof(uint32_t) * (slot % 32);
    for (int i = 0; i < dim / 2; ++i) {
      std::memcpy(k_group + sizeof(uint32_t) * 32 * i, rounded + 2 * i, sizeof(uint32_t));
    }

    round_row(v, dim, rounded);
    auto* v_group = reinterpret_cast<uint16_t*>(p.kv.v_group(block, head, slot / 32));
    v_group += static_cast<size_t>((slot % 32) / 2) * dim * 2 + (slot % 2);
    for (int d = 0; d < dim; ++d) {
      v_group[2 * d] = rounded[d];
    }
  }

  static void rope_and_store(const QkvParams& p, int row_begin, int row_end) {
    const int dim = p.kv.head_dim;
    for (int row = row_begin; row < row_end; ++row) {
      const float* in = p.qkv + static_cast<size_t>(row) * p.qkv_stride;
      uint16_t* q_out = p.q_out + static_cast<size_t>(row) * p.q_stride;
      for (int head = 0; head < p.q_heads; ++head) {
        rotate_head(p, row, in + p.q_column + head * dim, q_out + head * dim);
      }
      for (int head = 0; head < p.kv.kv_heads; ++head) {
        store_slot(p, row, in + p.k_column + head * dim, in + p.v_column + head * dim, head);
      }
    }
  }

  static constexpr SmallOps ops() {
    return {.residual_norm = residual_norm,
            .rope_and_store = rope_and_store,
            .swiglu = swiglu,
            .exp_minus = exp_minus};
  }
};

}  // namespace baton::kernels
