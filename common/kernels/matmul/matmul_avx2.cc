// AVX2 with FMA and F16C. Lanes are 8 columns, so a panel is two halves that are worked on one
// after the other: a tile of up to 6 rows holds 12 of the 16 registers in accumulators. Packed
// weights are always expanded to bf16 first.

#include <immintrin.h>

#include "common/kernels/matmul/level_kernels.h"

namespace baton::kernels {
namespace {

#define BATON_INLINE __attribute__((always_inline)) inline

using F32 = __m256;
using I32 = __m256i;

constexpr int kTileRows = 6;
constexpr int kHalf = 8;

BATON_INLINE I32 load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }

BATON_INLINE F32 load_half(const uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

BATON_INLINE F32 load_u8(const uint8_t* p) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

BATON_INLINE F32 load_i8(const uint8_t* p) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

// As in matmul_avx512.cc: the FMA rounds at bit 7 of the fraction, the second is exact.
BATON_INLINE F32 round_to_bf16(F32 w) {
  const F32 power =
      _mm256_and_ps(w, _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(0xFF800000))));
  const F32 shifted = _mm256_fmadd_ps(power, _mm256_set1_ps(98304.0f), w);
  return _mm256_fnmadd_ps(power, _mm256_set1_ps(98304.0f), shifted);
}

BATON_INLINE void store_pair(uint32_t* out, F32 even, F32 odd) {
  const I32 low = _mm256_srli_epi32(_mm256_castps_si256(round_to_bf16(even)), 16);
  const I32 high = _mm256_castps_si256(round_to_bf16(odd));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_or_si256(low, high));
}

// The two scale vectors of a half panel and the codes of element k of its 8 columns.
struct Affine {
  F32 scale;
  F32 offset;
};

BATON_INLINE I32 nibble(const uint8_t* nibbles, int column, int k) {
  const I32 w = load(nibbles + 64 * (k / 8) + 4 * column);
  return _mm256_and_si256(_mm256_srli_epi32(w, 4 * (k % 8)), _mm256_set1_epi32(15));
}

BATON_INLINE Affine affine(Q4Block, const uint8_t* b, int column, int) {
  return {load_half(b + Q4Block::kScale + 2 * column),
          load_half(b + Q4Block::kOffset + 2 * column)};
}
BATON_INLINE F32 code(Q4Block, const uint8_t* b, int column, int k) {
  return _mm256_cvtepi32_ps(nibble(b + Q4Block::kNibbles, column, k));
}

BATON_INLINE Affine affine(Q4SymmetricBlock, const uint8_t* b, int column, int) {
  const F32 scale = load_half(b + Q4SymmetricBlock::kScale + 2 * column);
  return {scale, _mm256_mul_ps(scale, _mm256_set1_ps(-8.0f))};
}
BATON_INLINE F32 code(Q4SymmetricBlock, const uint8_t* b, int column, int k) {
  return _mm256_cvtepi32_ps(nibble(b + Q4SymmetricBlock::kNibbles, column, k));
}

BATON_INLINE Affine affine(Q8Block, const uint8_t* b, int column, int) {
  return {load_half(b + Q8Block::kScale + 2 * column), _mm256_setzero_ps()};
}
BATON_INLINE F32 code(Q8Block, const uint8_t* b, int column, int k) {
  return load_i8(b + Q8Block::kCodes + kLanes * k + column);
}

template <typename Block>
BATON_INLINE Affine superblock_affine(const uint8_t* b, int column) {
  const F32 minus_sub = _mm256_sub_ps(_mm256_setzero_ps(), load_u8(b + Block::kSubOffset + column));
  return {_mm256_mul_ps(load_half(b + Block::kScale + 2 * column),
                        load_u8(b + Block::kSubScale + column)),
          _mm256_mul_ps(load_half(b + Block::kOffset + 2 * column), minus_sub)};
}

BATON_INLINE Affine affine(K4Block, const uint8_t* b, int column, int) {
  return superblock_affine<K4Block>(b, column);
}
BATON_INLINE F32 code(K4Block, const uint8_t* b, int column, int k) {
  return _mm256_cvtepi32_ps(nibble(b + K4Block::kNibbles, column, k));
}

template <typename Block>
BATON_INLINE F32 five_bits(const uint8_t* b, int column, int k) {
  const I32 bits = _mm256_srli_epi32(load(b + Block::kHigh + 4 * column), k);
  const I32 high = _mm256_slli_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(1)), 4);
  return _mm256_cvtepi32_ps(_mm256_or_si256(nibble(b + Block::kNibbles, column, k), high));
}

BATON_INLINE Affine affine(K5Block, const uint8_t* b, int column, int) {
  return superblock_affine<K5Block>(b, column);
}
BATON_INLINE F32 code(K5Block, const uint8_t* b, int column, int k) {
  return five_bits<K5Block>(b, column, k);
}

BATON_INLINE Affine affine(Q5Block, const uint8_t* b, int column, int) {
  return {load_half(b + Q5Block::kScale + 2 * column),
          load_half(b + Q5Block::kOffset + 2 * column)};
}
BATON_INLINE F32 code(Q5Block, const uint8_t* b, int column, int k) {
  return five_bits<Q5Block>(b, column, k);
}

BATON_INLINE Affine affine(Q5SymmetricBlock, const uint8_t* b, int column, int) {
  const F32 scale = load_half(b + Q5SymmetricBlock::kScale + 2 * column);
  return {scale, _mm256_mul_ps(scale, _mm256_set1_ps(-16.0f))};
}
BATON_INLINE F32 code(Q5SymmetricBlock, const uint8_t* b, int column, int k) {
  return five_bits<Q5SymmetricBlock>(b, column, k);
}

// The value of 4-bit codes: looked up as the highest byte of a lane, so that a shift extends its
// sign.
BATON_INLINE F32 looked_up(const int8_t* values, I32 codes) {
  const I32 table =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values)));
  const I32 index = _mm256_or_si256(_mm256_slli_epi32(codes, 24), _mm256_set1_epi32(0x00808080));
  return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_shuffle_epi8(table, index), 24));
}

BATON_INLINE Affine affine(N4Block, const uint8_t* b, int column, int) {
  return {load_half(b + N4Block::kScale + 2 * column), _mm256_setzero_ps()};
}
BATON_INLINE F32 code(N4Block, const uint8_t* b, int column, int k) {
  return looked_up(kIq4Values, nibble(b + N4Block::kNibbles, column, k));
}

BATON_INLINE Affine affine(N4SubBlock, const uint8_t* b, int column, int) {
  return {_mm256_mul_ps(load_half(b + N4SubBlock::kScale + 2 * column),
                        load_i8(b + N4SubBlock::kSubScale + column)),
          _mm256_setzero_ps()};
}
BATON_INLINE F32 code(N4SubBlock, const uint8_t* b, int column, int k) {
  return looked_up(kIq4Values, nibble(b + N4SubBlock::kNibbles, column, k));
}

BATON_INLINE Affine affine(Mx4Block, const uint8_t* b, int column, int) {
  const I32 exponent = _mm256_cvtepu8_epi32(
      _mm_loadl_epi64(reinterpret_cast<const __m128i*>(b + Mx4Block::kExponent + column)));
  const I32 bits = _mm256_slli_epi32(_mm256_sub_epi32(exponent, _mm256_set1_epi32(1)), 23);
  return {_mm256_castsi256_ps(bits), _mm256_setzero_ps()};
}
BATON_INLINE F32 code(Mx4Block, const uint8_t* b, int column, int k) {
  return looked_up(kMxfp4Values, nibble(b + Mx4Block::kNibbles, column, k));
}

BATON_INLINE Affine affine(K6Block, const uint8_t* b, int column, int k) {
  const F32 scale = _mm256_mul_ps(load_half(b + K6Block::kScale + 2 * column),
                                  load_i8(b + K6Block::kSubScale + kLanes * (k / 16) + column));
  return {scale, _mm256_mul_ps(scale, _mm256_set1_ps(-32.0f))};
}
BATON_INLINE F32 code(K6Block, const uint8_t* b, int column, int k) {
  const I32 bits =
      _mm256_srli_epi32(load(b + K6Block::kHigh + 64 * (k / 16) + 4 * column), 2 * (k % 16));
  const I32 high = _mm256_slli_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(3)), 4);
  return _mm256_cvtepi32_ps(_mm256_or_si256(nibble(b + K6Block::kNibbles, column, k), high));
}

template <typename Block>
BATON_INLINE void fetch_ahead(const uint8_t* b) {
#pragma GCC unroll 16
  for (size_t at = 0; at < Block::kBytes; at += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(b + kFetchAheadBytes + at), _MM_HINT_T0);
  }
}

template <typename Block>
void expand_blocks(const std::byte* packed, int blocks, uint32_t* out) {
  const auto* b = reinterpret_cast<const uint8_t*>(packed);
  for (int i = 0; i < blocks; ++i, b += Block::kBytes, out += kPairDwords) {
    fetch_ahead<Block>(b);
    for (int column = 0; column < kLanes; column += kHalf) {
      for (int half = 0; half < 2; ++half) {  // of K: Q6_K changes its scale in the middle
        const Affine a = affine(Block{}, b, column, 16 * half);
#pragma GCC unroll 8
        for (int q = 0; q < 8; ++q) {
          const int p = 8 * half + q;
          store_pair(out + p * kLanes + column,
                     _mm256_fmadd_ps(a.scale, code(Block{}, b, column, 2 * p), a.offset),
                     _mm256_fmadd_ps(a.scale, code(Block{}, b, column, 2 * p + 1), a.offset));
        }
      }
    }
  }
}

void expand(WeightFormat format, const std::byte* packed, int blocks, uint32_t* out) {
  switch (format) {
    case WeightFormat::kQ4:
      return expand_blocks<Q4Block>(packed, blocks, out);
    case WeightFormat::kQ4Symmetric:
      return expand_blocks<Q4SymmetricBlock>(packed, blocks, out);
    case WeightFormat::kQ8:
      return expand_blocks<Q8Block>(packed, blocks, out);
    case WeightFormat::kK4:
      return expand_blocks<K4Block>(packed, blocks, out);
    case WeightFormat::kK5:
      return expand_blocks<K5Block>(packed, blocks, out);
    case WeightFormat::kK6:
      return expand_blocks<K6Block>(packed, blocks, out);
    case WeightFormat::kQ5:
      return expand_blocks<Q5Block>(packed, blocks, out);
    case WeightFormat::kQ5Symmetric:
      return expand_blocks<Q5SymmetricBlock>(packed, blocks, out);
    case WeightFormat::kN4:
      return expand_blocks<N4Block>(packed, blocks, out);
    case WeightFormat::kN4Sub:
      return expand_blocks<N4SubBlock>(packed, blocks, out);
    case WeightFormat::kMx4:
      return expand_blocks<Mx4Block>(packed, blocks, out);
    case WeightFormat::kBf16Panels:
      return;
  }
}

// Adds the products of one block and 8 columns to even and odd.
template <typename Block, int kRows>
BATON_INLINE void dot_half_panel(const uint8_t* b, int column, const float* x, F32* even,
                                 F32* odd) {
  for (int half = 0; half < 2; ++half) {
    const Affine a = affine(Block{}, b, column, 16 * half);
#pragma GCC unroll 8
    for (int q = 0; q < 8; ++q) {
      const int p = 8 * half + q;
      const F32 even_w =
          round_to_bf16(_mm256_fmadd_ps(a.scale, code(Block{}, b, column, 2 * p), a.offset));
      const F32 odd_w =
          round_to_bf16(_mm256_fmadd_ps(a.scale, code(Block{}, b, column, 2 * p + 1), a.offset));
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r) {
        even[r] = _mm256_fmadd_ps(_mm256_set1_ps(x[r * kWideRow + 2 * p]), even_w, even[r]);
        odd[r] = _mm256_fmadd_ps(_mm256_set1_ps(x[r * kWideRow + 2 * p + 1]), odd_w, odd[r]);
      }
    }
  }
}

template <typename Block, int kRows>
void few_rows_of(const FewRowsArgs& args) {
  const auto* b = reinterpret_cast<const uint8_t*>(args.panel);
  F32 sum[2][kRows];
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
#pragma GCC unroll 2
    for (int r = 0; r < kRows; ++r) {
      sum[h][r] = _mm256_setzero_ps();
    }
  }
  for (int block = 0; block < args.blocks; ++block, b += Block::kBytes) {
    fetch_ahead<Block>(b);
    const float* x = reinterpret_cast<const float*>(args.x) +
                     (block / kChunkBlocks) * kRows * kWideRow + (block % kChunkBlocks) * 32;
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      F32 even[kRows];
      F32 odd[kRows];
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r) {
        even[r] = _mm256_setzero_ps();
        odd[r] = _mm256_setzero_ps();
      }
      dot_half_panel<Block, kRows>(b, kHalf * h, x, even, odd);
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r) {
        sum[h][r] = _mm256_add_ps(sum[h][r], _mm256_add_ps(even[r], odd[r]));
      }
    }
  }
#pragma GCC unroll 2
  for (int r = 0; r < kRows; ++r) {
    float* y = args.y + static_cast<ptrdiff_t>(r) * args.y_stride;
    _mm256_storeu_ps(y, sum[0][r]);
    _mm256_storeu_ps(y + kHalf, sum[1][r]);
  }
}

template <typename Block>
void few_rows_any(const FewRowsArgs& args) {
  if (args.rows == 1) {
    few_rows_of<Block, 1>(args);
  } else {
    few_rows_of<Block, 2>(args);
  }
}
constexpr int kMaxFewRows = 2;

void few_rows(WeightFormat format, const FewRowsArgs& args) {
  switch (format) {
    case WeightFormat::kQ4:
      return few_rows_any<Q4Block>(args);
    case WeightFormat::kQ4Symmetric:
      return few_rows_any<Q4SymmetricBlock>(args);
    case WeightFormat::kQ8:
      return few_rows_any<Q8Block>(args);
    case WeightFormat::kK4:
      return few_rows_any<K4Block>(args);
    case WeightFormat::kK5:
      return few_rows_any<K5Block>(args);
    case WeightFormat::kK6:
      return few_rows_any<K6Block>(args);
    case WeightFormat::kQ5:
      return few_rows_any<Q5Block>(args);
    case WeightFormat::kQ5Symmetric:
      return few_rows_any<Q5SymmetricBlock>(args);
    case WeightFormat::kN4:
      return few_rows_any<N4Block>(args);
    case WeightFormat::kN4Sub:
      return few_rows_any<N4SubBlock>(args);
    case WeightFormat::kMx4:
      return few_rows_any<Mx4Block>(args);
    case WeightFormat::kBf16Panels:
      return;
  }
}

struct HalfPanel {
  const uint32_t* weights;  // of 8 columns
  const std::byte* ahead;   // MultiplyArgs::ahead; null where another tile has fetched it
};

// kRows rows by 8 columns over all blocks of the chunk.
template <int kRows, bool kFetch>
void tile(const MultiplyArgs& args, const HalfPanel& panel, const float* x, float* y) {
  const uint32_t* weights = panel.weights;
  const I32 high_half = _mm256_set1_epi32(static_cast<int>(0xFFFF0000));
  for (int block = 0; block < args.blocks; ++block, x += 32, weights += kPairDwords) {
    F32 even[kRows];
    F32 odd[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      even[r] = _mm256_setzero_ps();
      odd[r] = _mm256_setzero_ps();
    }
#pragma GCC unroll 2
    for (int p = 0; p < kPairs; ++p) {
      if constexpr (kFetch) {
        _mm_prefetch(panel.ahead + (block * kPairs + p) * 64, _MM_HINT_T0);
      }
      const I32 pair = load(weights + p * kLanes);
      const F32 even_w = _mm256_castsi256_ps(_mm256_slli_epi32(pair, 16));
      const F32 odd_w = _mm256_castsi256_ps(_mm256_and_si256(pair, high_half));
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        even[r] = _mm256_fmadd_ps(_mm256_set1_ps(x[r * kWideRow + 2 * p]), even_w, even[r]);
        odd[r] = _mm256_fmadd_ps(_mm256_set1_ps(x[r * kWideRow + 2 * p + 1]), odd_w, odd[r]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      float* out = y + static_cast<ptrdiff_t>(r) * args.y_stride;
      const F32 sum = _mm256_add_ps(even[r], odd[r]);
      _mm256_storeu_ps(out, _mm256_add_ps(_mm256_loadu_ps(out), sum));
    }
  }
}

template <int kRows>
void tile_maybe_fetching(const MultiplyArgs& args, const HalfPanel& panel, const float* x,
                         float* y) {
  if (panel.ahead != nullptr) {
    tile<kRows, true>(args, panel, x, y);
  } else {
    tile<kRows, false>(args, panel, x, y);
  }
}

void tile_of_rows(int rows, const MultiplyArgs& args, const HalfPanel& panel, const float* x,
                  float* y) {
  switch (rows) {
    case 1:
      return tile_maybe_fetching<1>(args, panel, x, y);
    case 2:
      return tile_maybe_fetching<2>(args, panel, x, y);
    case 3:
      return tile_maybe_fetching<3>(args, panel, x, y);
    case 4:
      return tile_maybe_fetching<4>(args, panel, x, y);
    case 5:
      return tile_maybe_fetching<5>(args, panel, x, y);
    case 6:
      return tile_maybe_fetching<6>(args, panel, x, y);
  }
}

void multiply(const MultiplyArgs& args) {
  int tiles = (args.rows + kTileRows - 1) / kTileRows;
  for (int row = 0; row < args.rows; --tiles) {
    const int rows = (args.rows - row + tiles - 1) / tiles;
    const float* x = reinterpret_cast<const float*>(args.x) + row * kWideRow;
    float* y = args.y + static_cast<ptrdiff_t>(row) * args.y_stride;
    for (int n = 0; n < 2 && args.weights[n] != nullptr; ++n) {
      const HalfPanel left{args.weights[n], row == 0 ? args.ahead[n] : nullptr};
      const HalfPanel right{args.weights[n] + kHalf, nullptr};
      tile_of_rows(rows, args, left, x, y + n * kLanes);
      tile_of_rows(rows, args, right, x, y + n * kLanes + kHalf);
    }
    row += rows;
  }
}

void widen(const uint16_t* x, int count, std::byte* row) {
  auto* out = reinterpret_cast<float*>(row);
  for (int i = 0; i < count; i += kHalf) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i));
    const I32 wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), wide);
  }
}

#undef BATON_INLINE

}  // namespace

LevelKernels avx2_matmul_kernels() {
  return {.arrange = widen,
          .row_bytes = kWideRowBytes,
          .expand = expand,
          .multiply = multiply,
          .few_rows = few_rows,
          .max_few_rows = kMaxFewRows};
}

}  // namespace baton::kernels
