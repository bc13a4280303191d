// The tile kernel and its loops on an emulation of the tile unit, so that indexing, packing and the
// order of sums are checked on machines without AMX, too.

#include "common/kernels/matmul/tile_kernel.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/device/compute_team.h"
#include "common/kernels/matmul/emulated_tiles.h"
#include "common/kernels/matmul/matmul.h"
#include "common/kernels/matmul/test_matrices.h"

namespace baton::kernels {
namespace {

// Tile state lives as long as the hardware's: from one configuration to the next.
void emulated_multiply(const TileArgs& args, TileRows& configured) {
  EmulatedTiles tiles;
  if (configured.rows0 > 0) {
    tiles.configure(configured.rows0, configured.rows1);
  }
  multiply_with_tiles(tiles, args, configured);
  EXPECT_EQ(tiles.faults, 0);
}

struct Buffer {
  explicit Buffer(size_t bytes) : room(bytes + 64, std::byte{0xFF}) {}
  std::byte* data() {
    return room.data() + (64 - reinterpret_cast<uintptr_t>(room.data()) % 64) % 64;
  }
  std::vector<std::byte> room;
};

void expect_equal_to_scalar(const PackedMatrix& w, const std::vector<uint16_t>& x, int x_stride,
                            int rows) {
  const device::FlushDenormals flush;
  const int y_stride = w.panels() * kPanelRows;
  const auto size = static_cast<size_t>(rows) * static_cast<size_t>(y_stride);
  std::vector<float> want(size);
  std::vector<float> got(size, NAN);
  Buffer scratch(matmul_scratch_bytes(device::Isa::kAmx, w.format(), rows, w.padded_k()));
  MatmulParams params{&w, x.data(), x_stride, rows, want.data(), y_stride};
  matmul(device::Isa::kScalar, params, 0, w.panels(), scratch.data());
  params.y = got.data();
  const int cut = w.panels() / 2;
  matmul_with_tiles(emulated_multiply, scalar_matmul_kernels(), params, 0, cut, scratch.data());
  matmul_with_tiles(emulated_multiply, scalar_matmul_kernels(), params, cut, w.panels(),
                    scratch.data());
  for (size_t i = 0; i < size; ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i] + 0.0f), std::bit_cast<uint32_t>(want[i] + 0.0f))
        << "value " << i << " rows " << rows << " n " << w.n() << " k " << w.k();
  }
}

TEST(TileKernelTest, EmulatedTilesGiveTheBitsOfScalarForAllRowCounts) {
  TestRandom random(11);
  for (const SourceType type : {SourceType::kBf16, SourceType::kQ4_1, SourceType::kQ8_0,
                                SourceType::kQ5_0, SourceType::kIq4Nl, SourceType::kMxfp4}) {
    for (const int rows : {1, 2, 15, 16, 17, 31, 32, 33, 48, 63, 64, 70}) {
      // Shorter and longer than a chunk of 16 blocks, odd numbers of panels.
      const int k = 32 * (1 + random.below(36));
      const TestMatrix m = random_matrix(random, type, 1 + random.below(90), k);
      const std::vector<uint16_t> x = random_activations(random, rows, k, k + 32);
      for (const WeightFormat format : {WeightFormat::kBf16Panels, decode_format(type)}) {
        PackedMatrix w(format, m.n, k);
        pack_rows(w, 0, type, m.rows(), k, 0);
        expect_equal_to_scalar(w, x, k + 32, rows);
      }
    }
  }
}

TEST(TileKernelTest, EmulatedTilesFlushDenormalsAsScalarDoes) {
  TestRandom random(29);
  for (int round = 0; round < 20; ++round) {
    TestMatrix m = random_matrix(random, SourceType::kBf16, 20, 64);
    fill_with_extreme_values(random, m);
    std::vector<uint16_t> x = random_activations(random, 18, 64, 64);
    for (uint16_t& v : x) {
      // At most 2^-62, so that no sum overflows to infinity and then to NaN.
      v = random_extreme_bf16(random) & 0x9FFF;
    }
    PackedMatrix w(WeightFormat::kBf16Panels, m.n, m.k);
    pack_rows(w, 0, m.type, m.rows(), m.k, 0);
    expect_equal_to_scalar(w, x, 64, 18);
  }
}

}  // namespace
}  // namespace baton::kernels
