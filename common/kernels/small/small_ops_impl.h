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

  // One head of q or k, before RoPE; bias and norm may be null.
  struct HeadInput {
    const float* x;
    const float* bias;
    const float* norm;
  };

  // ((part0 + part1) + part2)... of columns [j, j + count) of the row that starts at `offset`.
  [[gnu::always_inline]] static F sum_parts(const float* const* parts, size_t n_parts,
                                            size_t offset, int count) {
    F t = L::load_first(parts[0] + offset, count);
    for (size_t i = 1; i < n_parts; ++i) {
      t = L::add(t, L::load_first(parts[i] + offset, count));
    }
    return t;
  }

  [[gnu::always_inline]] static float inverse_norm(float squares, int n, float eps) {
    return 1.0f / __builtin_sqrtf(squares / static_cast<float>(n) + eps);
  }

  // 1 / norm of the sum of the parts of a row.
  static float inverse_norm_of_parts(const ResidualNormParams& p, size_t part_row) {
    StridedSum<L> squares;
    for (int base = 0; base < p.n; base += 16) {
      for (int v = 0; v < StridedSum<L>::kVectors; ++v) {
        const int j = base + v * kWidth;
        const int count = p.n - j < kWidth ? p.n - j : kWidth;
        if (count <= 0) {
          break;
        }
        const F t = sum_parts(p.parts.data(), p.parts.size(), part_row + j, count);
        squares.partial[v] = L::fma(t, t, squares.partial[v]);
      }
    }
    return inverse_norm(squares.fold(), p.n, p.eps);
  }

  // Adds the parts to a row of the residual; returns the sum of its squares.
  static float add_parts(const ResidualNormParams& p, int row) {
    float* residual = p.residual + static_cast<size_t>(row) * p.n;
    const size_t part_row = static_cast<size_t>(row) * p.part_stride;
    const float* const* parts = p.parts.data();
    const size_t n_parts = p.parts.size();
    const bool normed = n_parts > 0 && p.part_weight != nullptr;
    const F inverse = L::set1(normed ? inverse_norm_of_parts(p, part_row) : 0.0f);
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
          F t = sum_parts(parts, n_parts, part_row + j, count);
          if (normed) {
            t = L::mul(L::mul(t, inverse), L::load_first(p.part_weight + j, count));
          }
          x = L::add(x, t);
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
      const F inverse = L::set1(inverse_norm(squares, p.n, p.eps));
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

  template <Activation kActivation>
  static void gated_row(const float* gate, const float* up, int n, uint16_t* out) {
    for (int j = 0; j < n; j += kWidth) {
      const int count = n - j < kWidth ? n - j : kWidth;
      F g = L::load_first(gate + j, count);
      if constexpr (kActivation == Activation::kSilu) {
        g = silu_canonical<L>(g);
      } else {
        g = gelu_canonical<L>(g);
      }
      L::store_bf16_first(out + j, L::mul(g, L::load_first(up + j, count)), count);
    }
  }

  static void gated(const GatedParams& p, int row_begin, int row_end) {
    const auto one_row = p.activation == Activation::kSilu ? gated_row<Activation::kSilu>
                                                           : gated_row<Activation::kGeluTanh>;
    for (int row = row_begin; row < row_end; ++row) {
      const size_t in = static_cast<size_t>(row) * p.stride;
      uint16_t* out = p.h + static_cast<size_t>(row) * p.h_stride;
      one_row(p.gate + in, p.up + in, p.n, out);
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

  // What comes before RoPE: x + bias of a head.
  static void add_bias(const float* x, const float* bias, int dim, float* out) {
    for (int j = 0; j < dim; j += kWidth) {
      const int count = dim - j < kWidth ? dim - j : kWidth;
      L::store_first(out + j, L::add(L::load_first(x + j, count), L::load_first(bias + j, count)),
                     count);
    }
  }

  // And the norm over a head. x and out may be the same.
  static void norm_head(const float* x, const float* weight, int dim, float eps, float* out) {
    StridedSum<L> squares;
    for (int base = 0; base < dim; base += 16) {
      for (int v = 0; v < StridedSum<L>::kVectors; ++v) {
        const int j = base + v * kWidth;
        const int count = dim - j < kWidth ? dim - j : kWidth;
        if (count <= 0) {
          break;
        }
        const F y = L::load_first(x + j, count);
        squares.partial[v] = L::fma(y, y, squares.partial[v]);
      }
    }
    const F inverse = L::set1(inverse_norm(squares.fold(), dim, eps));
    for (int j = 0; j < dim; j += kWidth) {
      const int count = dim - j < kWidth ? dim - j : kWidth;
      const F y = L::mul(L::load_first(x + j, count), inverse);
      L::store_first(out + j, L::mul(y, L::load_first(weight + j, count)), count);
    }
  }

  // One head of a row: bias, norm, RoPE, then bf16.
  static void rotate_head(const QkvParams& p, int row, HeadInput in, uint16_t* out) {
    const int dim = p.kv.head_dim;
    const float* x = in.x;
    float prepared[kMaxHeadDim];
    if (in.bias != nullptr) {
      add_bias(x, in.bias, dim, prepared);
      x = prepared;
    }
    if (in.norm != nullptr) {
      norm_head(x, in.norm, dim, p.eps, prepared);
      x = prepared;
    }
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

  static const float* at(const float* bias, int column) {
    return bias == nullptr ? nullptr : bias + column;
  }

  // Write one slot of K or V. pairs32: K [dim/2][32][2], V [16][dim][2].
  static void store_key(const QkvParams& p, int row, const float* in, int head) {
    const int dim = p.kv.head_dim;
    const int slot = p.positions[row] % p.kv.block_tokens;
    uint16_t rounded[kMaxHeadDim];
    rotate_head(p, row, {in + p.k_column + head * dim, at(p.k_bias, head * dim), p.k_norm},
                rounded);
    std::byte* k_group =
        p.kv.k_group(p.slot_block[row], head, slot / 32) + sizeof(uint32_t) * (slot % 32);
    for (int i = 0; i < dim / 2; ++i) {
      std::memcpy(k_group + sizeof(uint32_t) * 32 * i, rounded + 2 * i, sizeof(uint32_t));
    }
  }

  static void store_value(const QkvParams& p, int row, const float* in, int head) {
    const int dim = p.kv.head_dim;
    const int slot = p.positions[row] % p.kv.block_tokens;
    uint16_t rounded[kMaxHeadDim];
    const float* v = in + p.v_column + head * dim;
    float biased[kMaxHeadDim];
    if (p.v_bias != nullptr) {
      add_bias(v, p.v_bias + head * dim, dim, biased);
      v = biased;
    }
    round_row(v, dim, rounded);
    auto* v_group = reinterpret_cast<uint16_t*>(p.kv.v_group(p.slot_block[row], head, slot / 32));
    v_group += static_cast<size_t>((slot % 32) / 2) * dim * 2 + (slot % 2);
    for (int d = 0; d < dim; ++d) {
      v_group[2 * d] = rounded[d];
    }
  }

  static void rope_and_store(const QkvParams& p, int row_begin, int row_end) {
    const int dim = p.kv.head_dim;
    const int keys = p.q_heads;
    const int values = p.q_heads + p.kv.kv_heads;
    const int heads = p.q_heads + 2 * p.kv.kv_heads;
    const int end = p.head_end < heads ? p.head_end : heads;
    for (int row = row_begin; row < row_end; ++row) {
      const float* in = p.qkv + static_cast<size_t>(row) * p.qkv_stride;
      uint16_t* q_out = p.q_out + static_cast<size_t>(row) * p.q_stride;
      for (int head = p.head_begin; head < end; ++head) {
        if (head < keys) {
          const int column = head * dim;
          rotate_head(p, row, {in + p.q_column + column, at(p.q_bias, column), p.q_norm},
                      q_out + column);
        } else if (head < values) {
          store_key(p, row, in, head - keys);
        } else {
          store_value(p, row, in, head - values);
        }
      }
    }
  }

  static constexpr SmallOps ops() {
    return {.residual_norm = residual_norm,
            .rope_and_store = rope_and_store,
            .gated = gated,
            .exp_minus = exp_minus};
  }
};

}  // namespace baton::kernels
