#include "common/kernels/attention/tile_products.h"
#include "common/kernels/math/lanes_avx512.h"

namespace baton::kernels {
namespace {

struct Hardware {
  static constexpr bool kChainOrder = false;
  static void multiply(const TileArgs& args, TileRows& rows) { amx_multiply(args, rows); }
  static void release() { amx_release(); }
};

}  // namespace

// Softmax and merge with the lanes of AVX-512, which every processor with tiles has.
constinit const AttentionTile kAttentionTileAmx =
    AttentionImpl<Avx512Lanes, TileProducts<Avx512Lanes, Hardware>>::tile();

}  // namespace baton::kernels
