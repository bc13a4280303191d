#pragma once

// Expansion of packed weights with AVX-512 (F, BW, DQ, VL), for the two sources that differ in how
// they round to bf16, and its loads and scales for the one that does not expand. Included by
// nothing else; in an anonymous namespace, so that no function of it leaves its source.
//
// `Round` has to_dwords(even, odd), the pair as a bf16 block stores it, and in_place(even, odd),
// rounded f32.

#include <immintrin.h>

#include "common/kernels/matmul/level_kernels.h"

namespace baton::kernels {
namespace {

#define BATON_INLINE __attribute__((always_inline)) inline

using F32 = __m512;
using I32 = __m512i;

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

// Sinks take the pairs of a block in ascending order, not yet rounded.
template <typename Round>
struct StoreSink {
  Round round;
  uint32_t* out;
  BATON_INLINE void pair(int p, F32 even, F32 odd) {
    _mm512_storeu_si512(out + p * kLanes, round.to_dwords(even, odd));
  }
};

// The sums of one block; activations are widened.
struct FmaDot {
  static constexpr int kMostRows = 4;  // more are quicker expanded to memory
  static constexpr ptrdiff_t kRowBytes = kWideRowBytes;
  static constexpr ptrdiff_t kBlockBytes = 32 * sizeof(float);

  template <typename Round, int kRows>
  struct Sink {
    Round round;
    const std::byte* x;
    F32 even[kRows];
    F32 odd[kRows];
    BATON_INLINE void pair(int p, F32 e, F32 o) {
      round.in_place(e, o);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const float* row = reinterpret_cast<const float*>(x + r * kRowBytes);
        even[r] = _mm512_fmadd_ps(_mm512_set1_ps(row[2 * p]), e, even[r]);
        odd[r] = _mm512_fmadd_ps(_mm512_set1_ps(row[2 * p + 1]), o, odd[r]);
      }
    }
  };
};

BATON_INLINE F32 nibble_table() {
  return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

BATON_INLINE F32 value_table(const int8_t* values) {
  return load_i8(reinterpret_cast<const uint8_t*>(values));
}

// 4-bit codes: the table look-up reads the low four bits of a lane, so nothing is masked.
template <typename Sink>
BATON_INLINE void decode_nibbles(const uint8_t* nibbles, F32 table, F32 scale, F32 offset,
                                 Sink& sink) {
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
  decode_nibbles(b + Q4Block::kNibbles, nibble_table(), load_half(b + Q4Block::kScale),
                 load_half(b + Q4Block::kOffset), sink);
}

template <typename Sink>
BATON_INLINE void decode(Q4SymmetricBlock, const uint8_t* b, Sink& sink) {
  const F32 scale = load_half(b + Q4SymmetricBlock::kScale);
  decode_nibbles(b + Q4SymmetricBlock::kNibbles, nibble_table(), scale,
                 _mm512_mul_ps(scale, _mm512_set1_ps(-8.0f)), sink);
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
  decode_nibbles(b + K4Block::kNibbles, nibble_table(), superblock_scale<K4Block>(b),
                 superblock_offset<K4Block>(b), sink);
}

template <typename Sink>
BATON_INLINE void decode(N4Block, const uint8_t* b, Sink& sink) {
  decode_nibbles(b + N4Block::kNibbles, value_table(kIq4Values), load_half(b + N4Block::kScale),
                 _mm512_setzero_ps(), sink);
}

template <typename Sink>
BATON_INLINE void decode(N4SubBlock, const uint8_t* b, Sink& sink) {
  const F32 scale =
      _mm512_mul_ps(load_half(b + N4SubBlock::kScale), load_i8(b + N4SubBlock::kSubScale));
  decode_nibbles(b + N4SubBlock::kNibbles, value_table(kIq4Values), scale, _mm512_setzero_ps(),
                 sink);
}

BATON_INLINE F32 mx4_scale(const uint8_t* b) {
  const I32 exponent = _mm512_cvtepu8_epi32(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + Mx4Block::kExponent)));
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_sub_epi32(exponent, _mm512_set1_epi32(1)), 23));
}

template <typename Sink>
BATON_INLINE void decode(Mx4Block, const uint8_t* b, Sink& sink) {
  decode_nibbles(b + Mx4Block::kNibbles, value_table(kMxfp4Values), mx4_scale(b),
                 _mm512_setzero_ps(), sink);
}

// Bits 0-3 of `low` and the bits above of `high`.
BATON_INLINE I32 join_bits(I32 low, I32 high) {
  return _mm512_ternarylogic_epi32(_mm512_set1_epi32(15), low, high, 0xCA);
}

template <typename Block, typename Sink>
BATON_INLINE void decode_five_bits(const uint8_t* b, F32 scale, F32 offset, Sink& sink) {
  const F32 low_table = nibble_table();
  const F32 high_table = _mm512_add_ps(low_table, _mm512_set1_ps(16.0f));
  // Rotated so that the bit of the element at hand is bit 4; the look-up reads five bits.
  I32 high = _mm512_rol_epi32(_mm512_loadu_si512(b + Block::kHigh), 4);
#pragma GCC unroll 4
  for (int group = 0; group < 4; ++group) {
    I32 w = _mm512_loadu_si512(b + Block::kNibbles + 64 * group);
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
BATON_INLINE void decode(K5Block, const uint8_t* b, Sink& sink) {
  decode_five_bits<K5Block>(b, superblock_scale<K5Block>(b), superblock_offset<K5Block>(b), sink);
}

template <typename Sink>
BATON_INLINE void decode(Q5Block, const uint8_t* b, Sink& sink) {
  decode_five_bits<Q5Block>(b, load_half(b + Q5Block::kScale), load_half(b + Q5Block::kOffset),
                            sink);
}

template <typename Sink>
BATON_INLINE void decode(Q5SymmetricBlock, const uint8_t* b, Sink& sink) {
  const F32 scale = load_half(b + Q5SymmetricBlock::kScale);
  decode_five_bits<Q5SymmetricBlock>(b, scale, _mm512_mul_ps(scale, _mm512_set1_ps(-16.0f)), sink);
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

template <typename Round, typename Block>
void expand_blocks(const std::byte* packed, int blocks, uint32_t* out) {
  const auto* b = reinterpret_cast<const uint8_t*>(packed);
  for (int i = 0; i < blocks; ++i, b += Block::kBytes) {
    fetch_ahead<Block>(b);
    StoreSink<Round> sink{Round(), out + i * kPairDwords};
    decode(Block{}, b, sink);
  }
}

template <typename Round, typename Dot, typename Block, int kRows>
void few_rows_of(const FewRowsArgs& args) {
  const auto* b = reinterpret_cast<const uint8_t*>(args.panel);
  F32 sum[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    sum[r] = _mm512_setzero_ps();
  }
  for (int block = 0; block < args.blocks; ++block, b += Block::kBytes) {
    fetch_ahead<Block>(b);
    typename Dot::template Sink<Round, kRows> sink;
    sink.x = args.x + (block / kChunkBlocks) * kRows * Dot::kRowBytes +
             (block % kChunkBlocks) * Dot::kBlockBytes;
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

template <typename Round, typename Dot, typename Block, int kRows = Dot::kMostRows>
void few_rows_any(const FewRowsArgs& args) {
  if constexpr (kRows > 1) {
    if (args.rows < kRows) {
      return few_rows_any<Round, Dot, Block, kRows - 1>(args);
    }
  }
  few_rows_of<Round, Dot, Block, kRows>(args);
}

template <typename Round, typename Dot>
void few_rows(WeightFormat format, const FewRowsArgs& args) {
  switch (format) {
    case WeightFormat::kQ4:
      return few_rows_any<Round, Dot, Q4Block>(args);
    case WeightFormat::kQ4Symmetric:
      return few_rows_any<Round, Dot, Q4SymmetricBlock>(args);
    case WeightFormat::kQ8:
      return few_rows_any<Round, Dot, Q8Block>(args);
    case WeightFormat::kK4:
      return few_rows_any<Round, Dot, K4Block>(args);
    case WeightFormat::kK5:
      return few_rows_any<Round, Dot, K5Block>(args);
    case WeightFormat::kK6:
      return few_rows_any<Round, Dot, K6Block>(args);
    case WeightFormat::kQ5:
      return few_rows_any<Round, Dot, Q5Block>(args);
    case WeightFormat::kQ5Symmetric:
      return few_rows_any<Round, Dot, Q5SymmetricBlock>(args);
    case WeightFormat::kN4:
      return few_rows_any<Round, Dot, N4Block>(args);
    case WeightFormat::kN4Sub:
      return few_rows_any<Round, Dot, N4SubBlock>(args);
    case WeightFormat::kMx4:
      return few_rows_any<Round, Dot, Mx4Block>(args);
    case WeightFormat::kBf16Panels:
      return;
  }
}

template <typename Round>
void expand(WeightFormat format, const std::byte* packed, int blocks, uint32_t* out) {
  switch (format) {
    case WeightFormat::kQ4:
      return expand_blocks<Round, Q4Block>(packed, blocks, out);
    case WeightFormat::kQ4Symmetric:
      return expand_blocks<Round, Q4SymmetricBlock>(packed, blocks, out);
    case WeightFormat::kQ8:
      return expand_blocks<Round, Q8Block>(packed, blocks, out);
    case WeightFormat::kK4:
      return expand_blocks<Round, K4Block>(packed, blocks, out);
    case WeightFormat::kK5:
      return expand_blocks<Round, K5Block>(packed, blocks, out);
    case WeightFormat::kK6:
      return expand_blocks<Round, K6Block>(packed, blocks, out);
    case WeightFormat::kQ5:
      return expand_blocks<Round, Q5Block>(packed, blocks, out);
    case WeightFormat::kQ5Symmetric:
      return expand_blocks<Round, Q5SymmetricBlock>(packed, blocks, out);
    case WeightFormat::kN4:
      return expand_blocks<Round, N4Block>(packed, blocks, out);
    case WeightFormat::kN4Sub:
      return expand_blocks<Round, N4SubBlock>(packed, blocks, out);
    case WeightFormat::kMx4:
      return expand_blocks<Round, Mx4Block>(packed, blocks, out);
    case WeightFormat::kBf16Panels:
      return;
  }
}

#undef BATON_INLINE

}  // namespace
}  // namespace baton::kernels
