#pragma once

// The product with tiles, written over a small interface so that its indexing runs on any machine:
// `Tiles` is the hardware (matmul_amx.cc) or an emulation of its arithmetic (tile_kernel_test.cc).
// It has, for tile numbers 0..7:
//   configure(rows0, rows1)   tiles 0, 1, 4 get rows0 rows, 2, 3, 5 rows1 rows (0: not used), tiles
//                             6, 7 sixteen rows; every row is 64 bytes
//   zero<T>()  load<T>(address, stride bytes)  store<T>(address, stride bytes)
//   dot<C, A, B>()            TDPBF16PS
//
// Tiles 0-3 are sums of 2 x 2 (16 rows x 16 columns), 4-5 activations, 6-7 weights: four products
// for four loads, the best that eight tiles allow. One TDPBF16PS is one block of 32 of the
// canonical product: even and odd sums from zero, then sum += even + odd (docs/numerics.md).

#include "common/kernels/matmul/level_kernels.h"

namespace baton::kernels {

inline constexpr int kTileRows = 16;

template <typename Tiles, bool kTwoRowTiles, bool kTwoPanels>
void multiply_row_tiles(Tiles& tiles, const TileArgs& args, const uint16_t* x, float* y) {
  const size_t weight_stride = sizeof(uint32_t) * static_cast<size_t>(args.weight_stride);
  const ptrdiff_t weight_block = static_cast<ptrdiff_t>(kPairs) * args.weight_stride;
  const size_t x_stride = sizeof(uint16_t) * static_cast<size_t>(args.x_stride);
  const size_t y_stride = sizeof(float) * static_cast<size_t>(args.y_stride);
  const uint16_t* x1 = x + static_cast<ptrdiff_t>(kTileRows) * args.x_stride;
  float* y1 = y + static_cast<ptrdiff_t>(kTileRows) * args.y_stride;
  if (args.accumulate) {
    tiles.template load<0>(y, y_stride);
    if constexpr (kTwoPanels) {
      tiles.template load<1>(y + kLanes, y_stride);
    }
    if constexpr (kTwoRowTiles) {
      tiles.template load<2>(y1, y_stride);
    }
    if constexpr (kTwoRowTiles && kTwoPanels) {
      tiles.template load<3>(y1 + kLanes, y_stride);
    }
  } else {
    tiles.template zero<0>();
    if constexpr (kTwoPanels) {
      tiles.template zero<1>();
    }
    if constexpr (kTwoRowTiles) {
      tiles.template zero<2>();
    }
    if constexpr (kTwoRowTiles && kTwoPanels) {
      tiles.template zero<3>();
    }
  }
  for (int block = 0; block < args.blocks; ++block) {
    tiles.template load<6>(args.weights[0] + block * weight_block, weight_stride);
    tiles.template load<4>(x + block * 32, x_stride);
    tiles.template dot<0, 4, 6>();
    if constexpr (kTwoPanels) {
      tiles.template load<7>(args.weights[1] + block * weight_block, weight_stride);
      tiles.template dot<1, 4, 7>();
    }
    if constexpr (kTwoRowTiles) {
      tiles.template load<5>(x1 + block * 32, x_stride);
      tiles.template dot<2, 5, 6>();
      if constexpr (kTwoPanels) {
        tiles.template dot<3, 5, 7>();
      }
    }
  }
  tiles.template store<0>(y, y_stride);
  if constexpr (kTwoPanels) {
    tiles.template store<1>(y + kLanes, y_stride);
  }
  if constexpr (kTwoRowTiles) {
    tiles.template store<2>(y1, y_stride);
  }
  if constexpr (kTwoRowTiles && kTwoPanels) {
    tiles.template store<3>(y1 + kLanes, y_stride);
  }
}

template <typename Tiles>
void multiply_with_tiles(Tiles& tiles, const TileArgs& args, TileRows& configured) {
  for (int row = 0; row < args.rows; row += 2 * kTileRows) {
    const int left = args.rows - row;
    const int want0 = left < kTileRows ? left : kTileRows;
    const int want1 = left <= kTileRows ? 0 : (left < 2 * kTileRows ? left - kTileRows : kTileRows);
    if (want0 != configured.rows0 || want1 != configured.rows1) {
      tiles.configure(want0, want1);
      configured = {want0, want1};
    }
    const uint16_t* x = args.x + static_cast<ptrdiff_t>(row) * args.x_stride;
    float* y = args.y + static_cast<ptrdiff_t>(row) * args.y_stride;
    const bool two_panels = args.weights[1] != nullptr;
    if (want1 > 0 && two_panels) {
      multiply_row_tiles<Tiles, true, true>(tiles, args, x, y);
    } else if (want1 > 0) {
      multiply_row_tiles<Tiles, true, false>(tiles, args, x, y);
    } else if (two_panels) {
      multiply_row_tiles<Tiles, false, true>(tiles, args, x, y);
    } else {
      multiply_row_tiles<Tiles, false, false>(tiles, args, x, y);
    }
  }
}

}  // namespace baton::kernels
