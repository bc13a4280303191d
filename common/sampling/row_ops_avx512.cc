#include "common/kernels/math/lanes_avx512.h"
#include "common/sampling/row_ops_impl.h"

namespace baton::sampling {

constinit const RowOps kRowOpsAvx512 = RowOpsImpl<kernels::Avx512Lanes>::ops();

}  // namespace baton::sampling
