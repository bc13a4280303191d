// AVX-512 (F, BW, DQ, VL). Lanes are the 16 columns of a panel; even and odd are two accumulators.
//
// bf16 panels: a tile of up to 6 rows x 2 panels holds 24 accumulators, so that a broadcast
// activation feeds two FMAs and a weight six; that balances the two load ports with the two FMA
// ports. Packed weights and few rows: weights are expanded in registers and used at once.

#include <immintrin.h>

#include "common/kernels/matmul/level_kernels.h"

namespace baton::kernels {
namespace {

#define BATON_INLINE __attribute__((always_inline)) inline

using F32 = __m512;
using I32 = __m512i;

constexpr int kTileRows = 6;

BATON_INLINE F32 load_half(const uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

BATON_INLINE F32 load_u8(const uint8_t* p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

BATON_INLINE F32 load_i8(const uint8_t* p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

// To nearest even bf16, in three operations: adding 1.5 * 2^(e + 16) to a value of exponent e makes
// the FMA round it at bit 2^(e - 7), and taking the same away again is exact. Holds for normal
// values below 2^110 and for zero; expanded weights are nothing else (f16 scales, short codes).
BATON_INLINE F32 round_to_bf16(F32 w) {
  const F32 power = _mm512_castsi512_ps(
      _mm512_and_epi32(_mm512_castps_si512(w), _mm512_set1_epi32(static_cast<int>(0xFF800000))));
  const F32 shifted = _mm512_fmadd_ps(power, _mm512_set1_ps(98304.0f), w);
  return _mm512_fnmadd_ps(power, _mm512_set1_ps(98304.0f), shifted);
}

// Sinks take the pairs of a block in ascending order, not yet rounded.
struct StoreSink {
  uint32_t* out;
  BATON_INLINE void pair(int p, F32 even, F32 odd) {
    const I32 low = _mm512_srli_epi32(_mm512_castps_si512(round_to_bf16(even)), 16);
    const I32 high = _mm512_castps_si512(round_to_bf16(odd));
    _mm512_storeu_si512(out + p * kLanes, _mm512_or_epi32(low, high));
  }
};

template <int kRows>
struct DotSink {
  const float* x;
  F32 even[kRows];
  F32 odd[kRows];
  BATON_INLINE void pair(int p, F32 even_w, F32 odd_w) {
    const F32 e = round_to_bf16(even_w);
    const F32 o = round_to_bf16(odd_w);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      even[r] = _mm512_fmadd_ps(_mm512_set1_ps(x[r * kWideRow + 2 * p]), e, even[r]);
      odd[r] = _mm512_fmadd_ps(_mm512_set1_ps(x[r * kWideRow + 2 * p + 1]), o, odd[r]);
    }
  }
};

BATON_INLINE F32 nibble_table() {
  return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

// 4-bit codes: the table look-up reads the low four bits of a lane, so nothing is masked.
template <typename Sink>
BATON_INLINE void decode_nibbles(const uint8_t* nibbles, F32 scale, F32 offset, Sink& sink) {
  const F32 table = nibble_table();
#pragma GCC unroll 4
  for (int group = 0; group < 4; ++group) {
    I32 w = _mm512_loadu_si512(nibbles + 64 * group);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const F32 even = _mm512_permutexvar_ps(w, table);
      const F32 odd = _mm512_permutexvar_ps(_mm512_srli_epi32(w, 4), table);
      sink.pair(4 * group + j, _mm512_fmadd_ps(scale, even, offset),
                _mm512_fmadd_ps(scale, odd, offset));
      w = _mm512_srli_epi32(w, 8);
    }
  }
}

template <typename Sink>
BATON_INLINE void decode(Q4Block, const uint8_t* b, Sink& sink) {
  decode_nibbles(b + Q4Block::kNibbles, load_half(b + Q4Block::kScale),
                 load_half(b + Q4Block::kOffset), sink);
}

template <typename Sink>
BATON_INLINE void decode(Q4SymmetricBlock, const uint8_t* b, Sink& sink) {
  const F32 scale = load_half(b + Q4SymmetricBlock::kScale);
  decode_nibbles(b + Q4SymmetricBlock::kNibbles, scale, _mm512_mul_ps(scale, _mm512_set1_ps(-8.0f)),
                 sink);
}

template <typename Sink>
BATON_INLINE void decode(Q8Block, const uint8_t* b, Sink& sink) {
  const F32 scale = load_half(b + Q8Block::kScale);
#pragma GCC unroll 4
  for (int p = 0; p < kPairs; ++p) {
    const uint8_t* codes = b + Q8Block::kCodes + 2 * kLanes * p;
    sink.pair(p, _mm512_mul_ps(scale, load_i8(codes)),
              _mm512_mul_ps(scale, load_i8(codes + kLanes)));
  }
}

template <typename Block>
BATON_INLINE F32 superblock_scale(const uint8_t* b) {
  return _mm512_mul_ps(load_half(b + Block::kScale), load_u8(b + Block::kSubScale));
}

template <typename Block>
BATON_INLINE F32 superblock_offset(const uint8_t* b) {
  const F32 minus_sub = _mm512_sub_ps(_mm512_setzero_ps(), load_u8(b + Block::kSubOffset));
  return _mm512_mul_ps(load_half(b + Block::kOffset), minus_sub);
}

template <typename Sink>
BATON_INLINE void decode(K4Block, const uint8_t* b, Sink& sink) {
  decode_nibbles(b + K4Block::kNibbles, superblock_scale<K4Block>(b), superblock_offset<K4Block>(b),
                 sink);
}

// Bits 0-3 of `low` and the bits above of `high`.
BATON_INLINE I32 join_bits(I32 low, I32 high) {
  return _mm512_ternarylogic_epi32(_mm512_set1_epi32(15), low, high, 0xCA);
}

template <typename Sink>
BATON_INLINE void decode(K5Block, const uint8_t* b, Sink& sink) {
  const F32 scale = superblock_scale<K5Block>(b);
  const F32 offset = superblock_offset<K5Block>(b);
  const F32 low_table = nibble_table();
  const F32 high_table = _mm512_add_ps(low_table, _mm512_set1_ps(16.0f));
  // Rotated so that the bit of the element at hand is bit 4; the look-up reads five bits.
  I32 high = _mm512_rol_epi32(_mm512_loadu_si512(b + K5Block::kHigh), 4);
#pragma GCC unroll 4
  for (int group = 0; group < 4; ++group) {
    I32 w = _mm512_loadu_si512(b + K5Block::kNibbles + 64 * group);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const I32 even = join_bits(w, high);
      const I32 odd = join_bits(_mm512_srli_epi32(w, 4), _mm512_ror_epi32(high, 1));
      sink.pair(4 * group + j,
                _mm512_fmadd_ps(scale, _mm512_permutex2var_ps(low_table, even, high_table), offset),
                _mm512_fmadd_ps(scale, _mm512_permutex2var_ps(low_table, odd, high_table), offset));
      w = _mm512_srli_epi32(w, 8);
      high = _mm512_ror_epi32(high, 2);
    }
  }
}

template <typename Sink>
BATON_INLINE void decode(K6Block, const uint8_t* b, Sink& sink) {
  const F32 d = load_half(b + K6Block::kScale);
  const I32 six_bits = _mm512_set1_epi32(63);
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const F32 scale = _mm512_mul_ps(d, load_i8(b + K6Block::kSubScale + kLanes * half));
    const F32 offset = _mm512_mul_ps(scale, _mm512_set1_ps(-32.0f));
    I32 high = _mm512_rol_epi32(_mm512_loadu_si512(b + K6Block::kHigh + 64 * half), 4);
#pragma GCC unroll 2
    for (int group = 0; group < 2; ++group) {
      I32 w = _mm512_loadu_si512(b + K6Block::kNibbles + 128 * half + 64 * group);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const I32 even = _mm512_and_epi32(join_bits(w, high), six_bits);
        const I32 odd = _mm512_and_epi32(
            join_bits(_mm512_srli_epi32(w, 4), _mm512_ror_epi32(high, 2)), six_bits);
        sink.pair(8 * half + 4 * group + j,
                  _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(even), offset),
                  _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(odd), offset));
        w = _mm512_srli_epi32(w, 8);
        high = _mm512_ror_epi32(high, 4);
      }
    }
  }
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
  for (int i = 0; i < blocks; ++i, b += Block::kBytes) {
    fetch_ahead<Block>(b);
    StoreSink sink{out + i * kPairDwords};
    decode(Block{}, b, sink);
  }
}

template <typename Block, int kRows>
void few_rows_of(const FewRowsArgs& args) {
  const auto* b = reinterpret_cast<const uint8_t*>(args.panel);
  F32 sum[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    sum[r] = _mm512_setzero_ps();
  }
  for (int block = 0; block < args.blocks; ++block, b += Block::kBytes) {
    fetch_ahead<Block>(b);
    DotSink<kRows> sink;
    sink.x = args.x + (block / kChunkBlocks) * kRows * kWideRow + (block % kChunkBlocks) * 32;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      sink.even[r] = _mm512_setzero_ps();
      sink.odd[r] = _mm512_setzero_ps();
    }
    decode(Block{}, b, sink);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      sum[r] = _mm512_add_ps(sum[r], _mm512_add_ps(sink.even[r], sink.odd[r]));
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    _mm512_storeu_ps(args.y + static_cast<ptrdiff_t>(r) * args.y_stride, sum[r]);
  }
}

template <typename Block>
void few_rows_any(const FewRowsArgs& args) {
  switch (args.rows) {
    case 1:
      return few_rows_of<Block, 1>(args);
    case 2:
      return few_rows_of<Block, 2>(args);
    case 3:
      return few_rows_of<Block, 3>(args);
    case 4:
      return few_rows_of<Block, 4>(args);
  }
}
constexpr int kMaxFewRows = 4;

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
    case WeightFormat::kBf16Panels:
      return;
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
    case WeightFormat::kBf16Panels:
      return;
  }
}

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
    const float* x = args.x + row * kWideRow;
    float* y = args.y + static_cast<ptrdiff_t>(row) * args.y_stride;
    if (args.weights[1] != nullptr) {
      tile_of_rows<2>(rows, args, x, y);
    } else {
      tile_of_rows<1>(rows, args, x, y);
    }
    row += rows;
  }
}

void widen(const uint16_t* x, int count, float* out) {
  for (int i = 0; i < count; i += 16) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
    const I32 wide = _mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);
    _mm512_storeu_si512(out + i, wide);
  }
}

#undef BATON_INLINE

}  // namespace

LevelKernels avx512_matmul_kernels() { return {widen, expand, multiply, few_rows, kMaxFewRows}; }

}  // namespace baton::kernels
