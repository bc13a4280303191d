// The AMX level of attention on an emulation of the tile unit, with scalar lanes.

#include "common/kernels/attention/tile_products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/device/compute_team.h"
#include "common/kernels/attention/test_sequence.h"
#include "common/kernels/matmul/emulated_tiles.h"
#include "common/kernels/matmul/tile_kernel.h"

namespace baton::kernels {
namespace {

struct EmulatedUnit {
  static constexpr bool kChainOrder = false;
  // Tile state lives as long as the hardware's: from one configuration to the next.
  static void multiply(const TileArgs& args, TileRows& configured) {
    EmulatedTiles tiles;
    if (configured.rows0 > 0) {
      tiles.configure(configured.rows0, configured.rows1);
    }
    multiply_with_tiles(tiles, args, configured);
    EXPECT_EQ(tiles.faults, 0);
  }
  static void release() {}
};

void emulated_attention(const AttentionParams& params, int begin, int end, std::byte* scratch) {
  attention_with(AttentionImpl<ScalarLanes, TileProducts<ScalarLanes, EmulatedUnit>>::tile(),
                 params, begin, end, scratch);
}

TEST(TileProductsTest, GivesTheBitsOfTheDefinition) {
  const device::FlushDenormals flush;
  SeededRandom random(17);
  for (const Shape& shape : kEdgeShapes) {
    Sequence s(shape, random);
    expect_reference(s, s.run_all(emulated_attention));
  }
  for (int i = 0; i < 12; ++i) {
    Sequence s(random_shape(random), random);
    expect_reference(s, s.run_all(emulated_attention));
  }
}

TEST(TileProductsTest, SeesNothingOutsideTheWindow) {
  const device::FlushDenormals flush;
  SeededRandom random(19);
  for (const Shape& shape : kWindowShapes) {
    Sequence s(shape, random);
    expect_reference(s, s.run_all(emulated_attention));
  }
  for (int i = 0; i < 12; ++i) {
    Sequence s(random_window_shape(random), random);
    expect_reference(s, s.run_all(emulated_attention));
  }
}

TEST(TileProductsTest, RowsDoNotDependOnTheirCompany) {
  const device::FlushDenormals flush;
  SeededRandom random(18);
  const Shape shape{40, 540, 64, 3, 32};
  Sequence s(shape, random);
  const std::vector<uint16_t> all = s.run_all(emulated_attention);
  std::vector<uint16_t> pieces(all.size(), 0x7FFF);
  for (int row = 0; row < shape.rows; row += 7) {
    const int rows = std::min(7, shape.rows - row);
    s.run(emulated_attention, row, rows, 0, rows, pieces);
  }
  EXPECT_EQ(pieces, all);
}

}  // namespace
}  // namespace baton::kernels
