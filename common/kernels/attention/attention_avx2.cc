#include "common/kernels/attention/lane_products.h"
#include "common/kernels/math/lanes_avx2.h"

namespace baton::kernels {

// 12 accumulators and 4 operands in 16 registers.
constinit const AttentionTile kAttentionTileAvx2 =
    AttentionImpl<Avx2Lanes, LaneProducts<Avx2Lanes, 3, 2>>::tile();

}  // namespace baton::kernels
