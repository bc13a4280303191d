#include "common/kernels/math/lanes_scalar.h"
#include "common/kernels/small/small_ops_impl.h"

namespace baton::kernels {

constinit const SmallOps kSmallOpsScalar = SmallOpsImpl<ScalarLanes>::ops();

}  // namespace baton::kernels
