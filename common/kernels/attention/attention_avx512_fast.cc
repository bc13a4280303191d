// `numerics: fast` without tiles: the CPU's bf16 dot product takes their place.

#include "common/kernels/attention/tile_products.h"
#include "common/kernels/math/lanes_avx512.h"

namespace baton::kernels {
namespace {

struct DotProducts {
  static void multiply(const TileArgs& args, TileRows& rows) { avx512_dot(args, rows); }
  static void release() {}
};

}  // namespace

constinit const AttentionTile kAttentionTileFast =
    AttentionImpl<Avx512Lanes, TileProducts<Avx512Lanes, DotProducts>>::tile();

}  // namespace baton::kernels
