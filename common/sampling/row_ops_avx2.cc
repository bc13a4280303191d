#include "common/kernels/math/lanes_avx2.h"
#include "common/sampling/row_ops_impl.h"

namespace baton::sampling {

constinit const RowOps kRowOpsAvx2 = RowOpsImpl<kernels::Avx2Lanes>::ops();

}  // namespace baton::sampling
