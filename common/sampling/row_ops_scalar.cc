#include "common/kernels/math/lanes_scalar.h"
#include "common/sampling/row_ops_impl.h"

namespace baton::sampling {

constinit const RowOps kRowOpsScalar = RowOpsImpl<kernels::ScalarLanes>::ops();

}  // namespace baton::sampling
