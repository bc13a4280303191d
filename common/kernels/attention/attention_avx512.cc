#include "common/kernels/attention/lane_products.h"
#include "common/kernels/math/lanes_avx512.h"

namespace baton::kernels {

// 24 accumulators and 6 operands in 32 registers.
constinit const AttentionTile kAttentionTileAvx512 =
    AttentionImpl<Avx512Lanes, LaneProducts<Avx512Lanes, 6, 2>>::tile();

}  // namespace baton::kernels
