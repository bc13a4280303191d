#pragma once

// The small operations of one instruction-set level: filled by small_ops_<level>.cc from the
// template of small_ops_impl.h, chosen by small_ops.cc.

#include "common/kernels/small/small_ops.h"

namespace baton::kernels {

struct SmallOps {
  void (*residual_norm)(const ResidualNormParams& params, int row_begin, int row_end);
  void (*rope_and_store)(const QkvParams& params, int row_begin, int row_end);
  void (*gated)(const GatedParams& params, int row_begin, int row_end);
  void (*exp_minus)(const float* x, float shift, float* out, int n);
};

extern const SmallOps kSmallOpsScalar;
extern const SmallOps kSmallOpsAvx2;
extern const SmallOps kSmallOpsAvx512;

}  // namespace baton::kernels
