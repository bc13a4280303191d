#include "common/kernels/small/small_ops.h"

#include "common/base/check.h"
#include "common/kernels/math/lanes_scalar.h"
#include "common/kernels/small/small_ops_levels.h"

namespace baton::kernels {
namespace {

const SmallOps& ops_of(device::Isa isa) {
  switch (isa) {
    case device::Isa::kScalar:
      return kSmallOpsScalar;
    case device::Isa::kAvx2:
      return kSmallOpsAvx2;
    case device::Isa::kAvx512:
    case device::Isa::kAmx:  // tiles have nothing to offer here
      return kSmallOpsAvx512;
  }
  return kSmallOpsScalar;
}

}  // namespace

void residual_norm(device::Isa isa, const ResidualNormParams& params, int row_begin, int row_end) {
  BATON_CHECK(params.n > 0, "residual_norm: n must be positive");
  BATON_CHECK(params.weight == nullptr || params.x_stride >= params.n,
              "residual_norm: a row of x is shorter than n");
  ops_of(isa).residual_norm(params, row_begin, row_end);
}

void rope_and_store(device::Isa isa, const QkvParams& params, int row_begin, int row_end) {
  const int dim = params.kv.head_dim;
  BATON_CHECK(dim > 0 && dim % 2 == 0 && dim <= kMaxHeadDim,
              "rope_and_store: head_dim must be even and at most kMaxHeadDim");
  BATON_CHECK(params.rope.dims % 2 == 0 && params.rope.dims <= dim,
              "rope_and_store: rotated dims must be even and at most head_dim");
  BATON_CHECK(params.kv.block_tokens % 32 == 0, "rope_and_store: blocks hold groups of 32 slots");
  ops_of(isa).rope_and_store(params, row_begin, row_end);
}

void gated(device::Isa isa, const GatedParams& params, int row_begin, int row_end) {
  BATON_CHECK(params.h_stride >= params.n, "gated: a row of h is shorter than n");
  ops_of(isa).gated(params, row_begin, row_end);
}

void exp_minus(device::Isa isa, const float* x, float shift, float* out, int n) {
  ops_of(isa).exp_minus(x, shift, out, n);
}

uint16_t bf16_from_float(float v) {
  uint16_t out = 0;
  ScalarLanes::store_bf16(&out, v);
  return out;
}

float float_from_bf16(uint16_t v) { return ScalarLanes::load_bf16(&v); }

}  // namespace baton::kernels
