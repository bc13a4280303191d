#include "common/kernels/math/lanes_avx512.h"
#include "common/kernels/small/small_ops_impl.h"

namespace baton::kernels {

constinit const SmallOps kSmallOpsAvx512 = SmallOpsImpl<Avx512Lanes>::ops();

}  // namespace baton::kernels
