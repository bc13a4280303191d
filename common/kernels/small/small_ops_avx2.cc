#include "common/kernels/math/lanes_avx2.h"
#include "common/kernels/small/small_ops_impl.h"

namespace baton::kernels {

constinit const SmallOps kSmallOpsAvx2 = SmallOpsImpl<Avx2Lanes>::ops();

}  // namespace baton::kernels
