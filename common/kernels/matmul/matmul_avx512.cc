// AVX-512 (F, BW, DQ, VL). Lanes are the 16 columns of a panel; even and odd are two accumulators.
//
// bf16 panels: a tile of up to 6 rows x 2 panels holds 24 accumulators, so that a broadcast
// activation feeds two FMAs and a weight six; that balances the two load ports with the two FMA
// ports. Packed weights and few rows: weights are expanded in registers and used at once.

#include "common/kernels/matmul/expand_avx512.h"

namespace baton::kernels {
namespace {

constexpr int kTileRows = 6;

// To nearest even bf16, in three operations: adding 1.5 * 2^(e + 16) to a value of exponent e makes
// the FMA round it at bit 2^(e - 7), and taking the same away again is exact. Holds for normal
// values below 2^110 and for zero; expanded weights are nothing else (f16 scales, short codes).
[[gnu::always_inline]] inline F32 round_to_bf16(F32 w) {
  const F32 power = _mm512_castsi512_ps(
      _mm512_and_epi32(_mm512_castps_si512(w), _mm512_set1_epi32(static_cast<int>(0xFF800000))));
  const F32 shifted = _mm512_fmadd_ps(power, _mm512_set1_ps(98304.0f), w);
  return _mm512_fnmadd_ps(power, _mm512_set1_ps(98304.0f), shifted);
}

struct RoundByFma {
  [[gnu::always_inline]] I32 to_dwords(F32 even, F32 odd) const {
    const I32 low = _mm512_srli_epi32(_mm512_castps_si512(round_to_bf16(even)), 16);
    return _mm512_or_epi32(low, _mm512_castps_si512(round_to_bf16(odd)));
  }
  [[gnu::always_inline]] void in_place(F32& even, F32& odd) const {
    even = round_to_bf16(even);
    odd = round_to_bf16(odd);
  }
};

// One register tile of kRows rows and kPanels panels over all blocks of the chunk.
template <int kRows, int kPanels>
void tile(const MultiplyArgs& args, const float* x, float* y) {
  const std::byte* ahead[2] = {args.ahead[0], args.ahead[1]};
  const I32 high_half = _mm512_set1_epi32(static_cast<int>(0xFFFF0000));
  for (int block = 0; block < args.blocks; ++block, x += 32) {
    F32 even[kPanels][kRows];
    F32 odd[kPanels][kRows];
#pragma GCC unroll 2
    for (int n = 0; n < kPanels; ++n) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        even[n][r] = _mm512_setzero_ps();
        odd[n][r] = _mm512_setzero_ps();
      }
    }
#pragma GCC unroll 2
    for (int p = 0; p < kPairs; ++p) {
      F32 even_w[kPanels];
      F32 odd_w[kPanels];
#pragma GCC unroll 2
      for (int n = 0; n < kPanels; ++n) {
        const I32 pair = _mm512_loadu_si512(args.weights[n] + block * kPairDwords + p * kLanes);
        _mm_prefetch(ahead[n] + (block * kPairs + p) * 64, _MM_HINT_T0);
        even_w[n] = _mm512_castsi512_ps(_mm512_slli_epi32(pair, 16));
        odd_w[n] = _mm512_castsi512_ps(_mm512_and_epi32(pair, high_half));
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const F32 even_x = _mm512_set1_ps(x[r * kWideRow + 2 * p]);
        const F32 odd_x = _mm512_set1_ps(x[r * kWideRow + 2 * p + 1]);
#pragma GCC unroll 2
        for (int n = 0; n < kPanels; ++n) {
          even[n][r] = _mm512_fmadd_ps(even_x, even_w[n], even[n][r]);
          odd[n][r] = _mm512_fmadd_ps(odd_x, odd_w[n], odd[n][r]);
        }
      }
    }
#pragma GCC unroll 2
    for (int n = 0; n < kPanels; ++n) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        float* out = y + static_cast<ptrdiff_t>(r) * args.y_stride + n * kLanes;
        const F32 sum = _mm512_add_ps(even[n][r], odd[n][r]);
        _mm512_storeu_ps(out, _mm512_add_ps(_mm512_loadu_ps(out), sum));
      }
    }
  }
}

template <int kPanels>
void tile_of_rows(int rows, const MultiplyArgs& args, const float* x, float* y) {
  switch (rows) {
    case 1:
      return tile<1, kPanels>(args, x, y);
    case 2:
      return tile<2, kPanels>(args, x, y);
    case 3:
      return tile<3, kPanels>(args, x, y);
    case 4:
      return tile<4, kPanels>(args, x, y);
    case 5:
      return tile<5, kPanels>(args, x, y);
    case 6:
      return tile<6, kPanels>(args, x, y);
  }
}

void multiply(const MultiplyArgs& args) {
  // As even as possible: a tile of one row beside tiles of six would wait for its own additions.
  int tiles = (args.rows + kTileRows - 1) / kTileRows;
  for (int row = 0; row < args.rows; --tiles) {
    const int rows = (args.rows - row + tiles - 1) / tiles;
    const float* x = reinterpret_cast<const float*>(args.x) + row * kWideRow;
    float* y = args.y + static_cast<ptrdiff_t>(row) * args.y_stride;
    if (args.weights[1] != nullptr) {
      tile_of_rows<2>(rows, args, x, y);
    } else {
      tile_of_rows<1>(rows, args, x, y);
    }
    row += rows;
  }
}

void widen(const uint16_t* x, int count, std::byte* row) {
  auto* out = reinterpret_cast<float*>(row);
  for (int i = 0; i < count; i += 16) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
    const I32 wide = _mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);
    _mm512_storeu_si512(out + i, wide);
  }
}

}  // namespace

LevelKernels avx512_matmul_kernels() {
  return {.arrange = widen,
          .row_bytes = kWideRowBytes,
          .expand = expand<RoundByFma>,
          .multiply = multiply,
          .few_rows = few_rows<RoundByFma, FmaDot>,
          .max_few_rows = FmaDot::kMostRows};
}

}  // namespace baton::kernels
