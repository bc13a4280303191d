#include "common/kernels/attention/lane_products.h"
#include "common/kernels/math/lanes_scalar.h"

namespace baton::kernels {

// The reference: nothing is tiled.
constinit const AttentionTile kAttentionTileScalar =
    AttentionImpl<ScalarLanes, LaneProducts<ScalarLanes, 1, 1>>::tile();

}  // namespace baton::kernels
