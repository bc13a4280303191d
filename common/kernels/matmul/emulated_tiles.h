#pragma once

// The tile unit in plain C++, for tests of everything that is written over tile_kernel.h: indexing,
// packing and the order of sums are checked on machines without AMX, too.

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace baton::kernels {

// Tile state and instructions as the Intel manual defines them (SDM volume 2, TDPBF16PS, TILELOADD;
// https://www.intel.com/content/www/us/en/developer/articles/technical/intel-sdm.html). Operations
// on a tile without rows, which fault on hardware, are counted.
class EmulatedTiles {
 public:
  void configure(int rows0, int rows1) {
    rows_ = {rows0, rows0, rows1, rows1, rows0, rows1, 16, 16};
    bytes_ = {};
  }
  template <int kTile>
  void zero() {
    use(kTile);
    bytes_[kTile] = {};
  }
  template <int kTile>
  void load(const void* address, size_t stride) {
    use(kTile);
    bytes_[kTile] = {};
    for (size_t row = 0; row < static_cast<size_t>(rows_[kTile]); ++row) {
      std::memcpy(bytes_[kTile].data() + 64 * row,
                  static_cast<const std::byte*>(address) + stride * row, 64);
    }
  }
  template <int kTile>
  void store(void* address, size_t stride) {
    use(kTile);
    for (size_t row = 0; row < static_cast<size_t>(rows_[kTile]); ++row) {
      std::memcpy(static_cast<std::byte*>(address) + stride * row, bytes_[kTile].data() + 64 * row,
                  64);
    }
  }
  template <int kSum, int kX, int kWeights>
  void dot() {
    use(kSum);
    use(kX);
    use(kWeights);
    faults += rows_[kSum] != rows_[kX];
    for (size_t m = 0; m < static_cast<size_t>(rows_[kSum]); ++m) {
      for (size_t n = 0; n < 16; ++n) {
        float even = 0;
        float odd = 0;
        for (size_t k = 0; k < 16; ++k) {
          even = std::fma(bf16(kX, m, 2 * k), bf16(kWeights, k, 2 * n), even);
          odd = std::fma(bf16(kX, m, 2 * k + 1), bf16(kWeights, k, 2 * n + 1), odd);
        }
        float sum = 0;
        std::byte* at = bytes_[kSum].data() + 64 * m + 4 * n;
        std::memcpy(&sum, at, 4);
        sum += even + odd;
        std::memcpy(at, &sum, 4);
      }
    }
  }

  int faults = 0;

 private:
  void use(int tile) { faults += rows_[static_cast<size_t>(tile)] == 0; }
  float bf16(int tile, size_t row, size_t index) const {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes_[static_cast<size_t>(tile)].data() + 64 * row + 2 * index, 2);
    return std::bit_cast<float>(uint32_t{bits} << 16);
  }
  std::array<int, 8> rows_{};
  std::array<std::array<std::byte, 1024>, 8> bytes_{};
};

}  // namespace baton::kernels
