// AVX-512 with the CPU's bf16 dot product in place of tiles.

#include "common/kernels/attention/tile_products.h"
#include "common/kernels/math/lanes_avx512.h"

namespace baton::kernels {
namespace {

struct DotProducts {
  static constexpr bool kChainOrder = true;
  static void multiply(const TileArgs& args, TileRows& rows) { avx512_dot(args, rows); }
  static void release() {}
};

}  // namespace

constinit const AttentionTile kAttentionTileAvx512Dot =
    AttentionImpl<Avx512Lanes, TileProducts<Avx512Lanes, DotProducts>>::tile();

}  // namespace baton::kernels
