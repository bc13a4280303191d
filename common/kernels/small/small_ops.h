#pragma once

// The operations between the products, fused as far as their rounding points allow
// (docs/numerics.md). Each works on rows [row_begin, row_end) in one thread, exists at every
// instruction-set level and gives equal bits at all.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "common/base/ids.h"
#include "common/device/isa.h"
#include "common/kernels/attention/attention.h"

namespace baton::kernels {

// residual[row] += t where t = ((part0 + part1) + part2)..., or rmsnorm(t) * part_weight where that
// is given; then x = bf16(rmsnorm(residual) * weight). With no parts only the norm. Columns
// [n, x_stride) of x are set to zero.
struct ResidualNormParams {
  float* residual = nullptr;  // [rows, n] f32, updated
  // Partial results of a row-split product, one per reduction segment that is not empty, ascending:
  // [rows, part_stride] f32 each.
  std::span<const float* const> parts = {};
  int part_stride = 0;
  const float* part_weight = nullptr;  // [n]; null: the sum is added as it is
  const float* weight = nullptr;       // [n]; null: add only, x is not written
  uint16_t* x = nullptr;               // [rows, x_stride] bf16
  int x_stride = 0;
  int n = 0;
  float eps = 0;
};
void residual_norm(device::Isa isa, const ResidualNormParams& params, int row_begin, int row_end);

// cos and sin of position p, pair i at [p * (dims/2) + i], computed once in double.
struct RopeTable {
  const float* cos = nullptr;
  const float* sin = nullptr;
  int dims = 0;             // rotated dims of a head, even; the rest passes through
  bool interleaved = true;  // pairs (2i, 2i+1); else (i, i + dims/2)
};

// Bias, norm of each head of q and k, RoPE on q and k, all in f32; then q rounded to bf16, k and v
// rounded to bf16 into the KV blocks.
struct QkvParams {
  const float* qkv =
      nullptr;         // [rows, qkv_stride]: q heads, then k heads, then v heads of the rank,
  int qkv_stride = 0;  // each part starting at the column given here (panels pad them)
  int q_column = 0, k_column = 0, v_column = 0;
  int q_heads = 0;
  // Of the rank's heads: [q_heads * head_dim], [kv_heads * head_dim] twice; null where there is
  // none.
  const float* q_bias = nullptr;
  const float* k_bias = nullptr;
  const float* v_bias = nullptr;
  // Weights of rmsnorm over a head, [head_dim]; null where there is none.
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  float eps = 0;
  uint16_t* q_out = nullptr;  // [rows, q_stride]
  int q_stride = 0;
  KvLayerView kv = {};  // kv.kv_heads heads, kv.head_dim <= kMaxHeadDim
  RopeTable rope = {};
  // Of each row: its absolute position, and the block that holds it.
  const int32_t* positions = nullptr;   // [rows]
  const BlockId* slot_block = nullptr;  // [rows]; slot = position % block_tokens
  // Which heads, counted through q, then k, then v.
  int head_begin = 0;
  int head_end = std::numeric_limits<int>::max();
};
void rope_and_store(device::Isa isa, const QkvParams& params, int row_begin, int row_end);

enum class Activation : uint8_t { kSilu, kGeluTanh };

// h = bf16(activation(gate) * up), columns [0, n); columns [n, h_stride) are set to zero.
struct GatedParams {
  Activation activation = Activation::kSilu;
  const float* gate = nullptr;  // [rows, stride]
  const float* up = nullptr;    // [rows, stride]
  int stride = 0;
  uint16_t* h = nullptr;  // [rows, h_stride]
  int h_stride = 0;
  int n = 0;
};
void gated(device::Isa isa, const GatedParams& params, int row_begin, int row_end);

// out[i] = exp(x[i] - shift), the exp of math/exp.h. x and out may be the same.
void exp_minus(device::Isa isa, const float* x, float shift, float* out, int n);

uint16_t bf16_from_float(float v);  // round to nearest even; NaN stays NaN
float float_from_bf16(uint16_t v);

}  // namespace baton::kernels
