#pragma once

// The operations between the products, fused as far as their rounding points allow
// (docs/numerics.md). Each works on rows [row_begin, row_end) in one thread, exists at every
// instruction-set level and gives equal bits at all.

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/ids.h"
#include "common/device/isa.h"
#include "common/kernels/attention/attention.h"

namespace baton::kernels {

// residual[row] += t where t = ((part0 + part1) + part2)...; then x = bf16(rmsnorm(residual) * w).
// With no parts only the norm. Columns [n, x_stride) of x are set to zero.
struct ResidualNormParams {
  float* residual = nullptr;  // [rows, n] f32, updated
  // Partial results of a row-split product, one per reduction segment that is not empty, ascending:
  // [rows, part_stride] f32 each.
  std::span<const float* const> parts = {};
  int part_stride = 0;
  const float* weight = nullptr;  // [n]; null: add only, x is not written
  uint16_t* x = nullptr;          // [rows, x_stride] bf16
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

// RoPE in f32 on q and k, q rounded to bf16, k and v rounded to bf16 into the KV blocks.
struct QkvParams {
  const float* qkv =
      nullptr;         // [rows, qkv_stride]: q heads, then k heads, then v heads of the rank,
  int qkv_stride = 0;  // each part starting at the column given here (panels pad them)
  int q_column = 0, k_column = 0, v_column = 0;
  int q_heads = 0;
  uint16_t* q_out = nullptr;  // [rows, q_stride]
  int q_stride = 0;
  KvLayerView kv = {};  // kv.kv_heads heads, kv.head_dim <= kMaxHeadDim
  RopeTable rope = {};
  // Of each row: its absolute position, and the block that holds it.
  const int32_t* positions = nullptr;   // [rows]
  const BlockId* slot_block = nullptr;  // [rows]; slot = position % block_tokens
};
void rope_and_store(device::Isa isa, const QkvParams& params, int row_begin, int row_end);

// h = bf16(silu(gate) * up), columns [0, n); columns [n, h_stride) are set to zero.
struct SwigluParams {
  const float* gate = nullptr;  // [rows, stride]
  const float* up = nullptr;    // [rows, stride]
  int stride = 0;
  uint16_t* h = nullptr;  // [rows, h_stride]
  int h_stride = 0;
  int n = 0;
};
void swiglu(device::Isa isa, const SwigluParams& params, int row_begin, int row_end);

// out[i] = exp(x[i] - shift), the exp of math/exp.h. x and out may be the same.
void exp_minus(device::Isa isa, const float* x, float shift, float* out, int n);

uint16_t bf16_from_float(float v);  // round to nearest even; NaN stays NaN
float float_from_bf16(uint16_t v);

}  // namespace baton::kernels
