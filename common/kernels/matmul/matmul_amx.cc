// Tiles of the hardware. Inline asm throughout: g++ 12 passes only 8 of the 64 bytes of the
// configuration to _tile_loadconfig, and the other intrinsics are macros that take no template
// argument for a tile number.

#include "common/kernels/matmul/tile_kernel.h"

namespace baton::kernels {
namespace {

class HardwareTiles {
 public:
  void configure(int rows0, int rows1) {
    struct alignas(64) Config {
      uint8_t palette = 1;
      uint8_t start_row = 0;
      uint8_t reserved[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    };
    static_assert(sizeof(Config) == 64);
    Config config;
    const int rows[8] = {rows0, rows0, rows1, rows1, rows0, rows1, kTileRows, kTileRows};
    for (int i = 0; i < 8; ++i) {
      config.rows[i] = static_cast<uint8_t>(rows[i]);
      config.row_bytes[i] = rows[i] > 0 ? 64 : 0;
    }
    asm volatile("ldtilecfg %0" : : "m"(config));
  }

  template <int kTile>
  void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile>
  void load(const void* address, size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
                 :
                 : "r"(address), "r"(stride), "i"(kTile)
                 : "memory");
  }
  template <int kTile>
  void store(void* address, size_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
                 :
                 : "r"(address), "r"(stride), "i"(kTile)
                 : "memory");
  }
  template <int kSum, int kX, int kWeights>
  void dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kX), "i"(kWeights));
  }
};

}  // namespace

void amx_multiply(const TileArgs& args, TileRows& configured) {
  HardwareTiles tiles;
  multiply_with_tiles(tiles, args, configured);
}

void amx_release() { asm volatile("tilerelease"); }

}  // namespace baton::kernels
