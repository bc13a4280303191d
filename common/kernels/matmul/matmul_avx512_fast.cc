// `numerics: fast` on AVX-512 with BF16, VNNI and VBMI. Packed weights meet 8-bit activations: a
// code of a weight is made an unsigned byte, VPDPBUSD adds four products at once, and each block of
// 32 is scaled to f32 on its own (as GGML's Q8_0 activations,
// https://github.com/ggml-org/ggml/blob/master/src/ggml-quants.c).

#include "common/kernels/matmul/expand_avx512.h"

namespace baton::kernels {
namespace {

// A block of 16 columns: w = scale * code + offset, scale and offset of each half of the block.
// Codes are unsigned bytes; dwords hold elements in the order of CodeBlock::codes.
struct CodedColumns {
  I32 codes[8];
  F32 scale[2];
  F32 offset[2];
};

[[gnu::always_inline]] inline F32 times(F32 scale, float factor) {
  return _mm512_mul_ps(scale, _mm512_set1_ps(factor));
}

[[gnu::always_inline]] inline void set_scale(CodedColumns& c, F32 scale, F32 offset) {
  c.scale[0] = c.scale[1] = scale;
  c.offset[0] = c.offset[1] = offset;
}

[[gnu::always_inline]] inline void take_nibbles(const uint8_t* nibbles, CodedColumns& c) {
  const I32 low = _mm512_set1_epi8(15);
#pragma GCC unroll 4
  for (int g = 0; g < 4; ++g) {
    const I32 w = _mm512_loadu_si512(nibbles + 64 * g);
    c.codes[2 * g] = _mm512_and_si512(w, low);
    c.codes[2 * g + 1] = _mm512_and_si512(_mm512_srli_epi32(w, 4), low);
  }
}

// For each byte b of the two dwords of a qword, where in the qword its bits begin: at `first` +
// b * `step` of its dword.
[[gnu::always_inline]] inline I32 bit_positions(int first, int step) {
  uint64_t control = 0;
  for (int dword = 0; dword < 2; ++dword) {
    for (int b = 0; b < 4; ++b) {
      const auto at = static_cast<uint64_t>((32 * dword + first + b * step) & 63);
      control |= at << (32 * dword + 8 * b);
    }
  }
  return _mm512_set1_epi64(static_cast<long long>(control));
}

// Adds bits from 4 on to nibbles: `mask` says which; element k's begin at bit width * k of `high`.
template <int kWidth>
[[gnu::always_inline]] inline void take_high_bits(I32 high, int first_group, int groups, int mask,
                                                  CodedColumns& c) {
  const I32 wanted = _mm512_set1_epi8(static_cast<char>(mask));
#pragma GCC unroll 4
  for (int g = 0; g < groups; ++g) {
#pragma GCC unroll 2
    for (int odd = 0; odd < 2; ++odd) {
      const I32 at = bit_positions(kWidth * (8 * g + odd) - 4, 2 * kWidth);
      I32& codes = c.codes[2 * (first_group + g) + odd];
      codes =
          _mm512_or_si512(codes, _mm512_and_si512(_mm512_multishift_epi64_epi8(at, high), wanted));
    }
  }
}

// Signed values of a table in place of nibbles, 128 added.
[[gnu::always_inline]] inline void look_up(const int8_t* values, CodedColumns& c) {
  const __m128i table =
      _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values)), _mm_set1_epi8(-128));
  const I32 wide = _mm512_broadcast_i32x4(table);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    c.codes[i] = _mm512_shuffle_epi8(wide, c.codes[i]);
  }
}

[[gnu::always_inline]] inline void take(Q4Block, const uint8_t* b, CodedColumns& c) {
  set_scale(c, load_half(b + Q4Block::kScale), load_half(b + Q4Block::kOffset));
  take_nibbles(b + Q4Block::kNibbles, c);
}

[[gnu::always_inline]] inline void take(Q4SymmetricBlock, const uint8_t* b, CodedColumns& c) {
  const F32 scale = load_half(b + Q4SymmetricBlock::kScale);
  set_scale(c, scale, times(scale, -8.0f));
  take_nibbles(b + Q4SymmetricBlock::kNibbles, c);
}

// Of eight elements' bytes [8][16 columns]: those with even (odd) numbers, column by column.
struct ByteOrder {
  uint8_t index[64];
};
constexpr ByteOrder every_second_element(int odd) {
  ByteOrder order{};
  for (int column = 0; column < kLanes; ++column) {
    for (int b = 0; b < 4; ++b) {
      order.index[4 * column + b] = static_cast<uint8_t>((2 * b + odd) * kLanes + column);
    }
  }
  return order;
}
alignas(64) constexpr ByteOrder kEvenElements = every_second_element(0);
alignas(64) constexpr ByteOrder kOddElements = every_second_element(1);

[[gnu::always_inline]] inline void take(Q8Block, const uint8_t* b, CodedColumns& c) {
  const F32 scale = load_half(b + Q8Block::kScale);
  set_scale(c, scale, times(scale, -128.0f));
  const I32 sign = _mm512_set1_epi8(-128);
#pragma GCC unroll 4
  for (int g = 0; g < 4; ++g) {
    const uint8_t* codes = b + Q8Block::kCodes + 128 * g;
    const I32 first = _mm512_xor_si512(_mm512_loadu_si512(codes), sign);
    const I32 last = _mm512_xor_si512(_mm512_loadu_si512(codes + 64), sign);
    c.codes[2 * g] = _mm512_permutex2var_epi8(first, _mm512_load_si512(kEvenElements.index), last);
    c.codes[2 * g + 1] =
        _mm512_permutex2var_epi8(first, _mm512_load_si512(kOddElements.index), last);
  }
}

[[gnu::always_inline]] inline void take(K4Block, const uint8_t* b, CodedColumns& c) {
  set_scale(c, superblock_scale<K4Block>(b), superblock_offset<K4Block>(b));
  take_nibbles(b + K4Block::kNibbles, c);
}

[[gnu::always_inline]] inline void take(N4Block, const uint8_t* b, CodedColumns& c) {
  const F32 scale = load_half(b + N4Block::kScale);
  set_scale(c, scale, times(scale, -128.0f));
  take_nibbles(b + N4Block::kNibbles, c);
  look_up(kIq4Values, c);
}

[[gnu::always_inline]] inline void take(N4SubBlock, const uint8_t* b, CodedColumns& c) {
  const F32 scale =
      _mm512_mul_ps(load_half(b + N4SubBlock::kScale), load_i8(b + N4SubBlock::kSubScale));
  set_scale(c, scale, times(scale, -128.0f));
  take_nibbles(b + N4SubBlock::kNibbles, c);
  look_up(kIq4Values, c);
}

[[gnu::always_inline]] inline void take(Mx4Block, const uint8_t* b, CodedColumns& c) {
  const F32 scale = mx4_scale(b);
  set_scale(c, scale, times(scale, -128.0f));
  take_nibbles(b + Mx4Block::kNibbles, c);
  look_up(kMxfp4Values, c);
}

template <typename Block>
[[gnu::always_inline]] inline void take_five_bits(const uint8_t* b, CodedColumns& c) {
  take_nibbles(b + Block::kNibbles, c);
  take_high_bits<1>(_mm512_loadu_si512(b + Block::kHigh), 0, 4, 0x10, c);
}

[[gnu::always_inline]] inline void take(K5Block, const uint8_t* b, CodedColumns& c) {
  set_scale(c, superblock_scale<K5Block>(b), superblock_offset<K5Block>(b));
  take_five_bits<K5Block>(b, c);
}

[[gnu::always_inline]] inline void take(Q5Block, const uint8_t* b, CodedColumns& c) {
  set_scale(c, load_half(b + Q5Block::kScale), load_half(b + Q5Block::kOffset));
  take_five_bits<Q5Block>(b, c);
}

[[gnu::always_inline]] inline void take(Q5SymmetricBlock, const uint8_t* b, CodedColumns& c) {
  const F32 scale = load_half(b + Q5SymmetricBlock::kScale);
  set_scale(c, scale, times(scale, -16.0f));
  take_five_bits<Q5SymmetricBlock>(b, c);
}

[[gnu::always_inline]] inline void take(K6Block, const uint8_t* b, CodedColumns& c) {
  const F32 d = load_half(b + K6Block::kScale);
  take_nibbles(b + K6Block::kNibbles, c);
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    c.scale[half] = _mm512_mul_ps(d, load_i8(b + K6Block::kSubScale + kLanes * half));
    c.offset[half] = times(c.scale[half], -32.0f);
    take_high_bits<2>(_mm512_loadu_si512(b + K6Block::kHigh + 64 * half), 2 * half, 2, 0x30, c);
  }
}

template <typename Block>
constexpr bool kScalesOfHalves = false;
template <>
constexpr bool kScalesOfHalves<K6Block> = true;

// Codes [begin, end) of a block, which share the scale and offset `half`.
struct CodeRange {
  int half;
  int begin;
  int end;
};

// What a range of codes gives to the sums of kRows rows, which lie `stride` blocks apart.
template <int kRows>
[[gnu::always_inline]] inline void add_products(const CodedColumns& c, CodeRange range,
                                                const CodeBlock* x, ptrdiff_t stride, F32* sum) {
  I32 products[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    products[r] = _mm512_setzero_si512();
  }
  // Rows go inside: the additions of one row wait for each other.
#pragma GCC unroll 8
  for (int i = range.begin; i < range.end; ++i) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      int32_t four;
      __builtin_memcpy(&four, x[r * stride].codes + 4 * i, sizeof(four));
      products[r] = _mm512_dpbusd_epi32(products[r], c.codes[i], _mm512_set1_epi32(four));
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const CodeBlock& row = x[r * stride];
    const F32 scale = _mm512_mul_ps(c.scale[range.half], _mm512_set1_ps(row.scale));
    const bool whole = range.end - range.begin == 8;
    const float all = whole ? row.sum : row.half_sum[range.half];
    sum[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products[r]), scale, sum[r]);
    sum[r] = _mm512_fmadd_ps(c.offset[range.half], _mm512_set1_ps(all), sum[r]);
  }
}

constexpr int kCodedRows = 8;  // of a register tile

template <typename Block, int kRows>
void coded_tile(const CodedRowsArgs& args, int first_row) {
  const auto* b = reinterpret_cast<const uint8_t*>(args.panel);
  const CodeBlock* x = args.x + static_cast<ptrdiff_t>(first_row) * args.x_stride;
  F32 sum[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    sum[r] = _mm512_setzero_ps();
  }
  for (int block = 0; block < args.blocks; ++block, b += Block::kBytes, ++x) {
    fetch_ahead<Block>(b);
    CodedColumns c;
    take(Block{}, b, c);
    if constexpr (kScalesOfHalves<Block>) {
      add_products<kRows>(c, {0, 0, 4}, x, args.x_stride, sum);
      add_products<kRows>(c, {1, 4, 8}, x, args.x_stride, sum);
    } else {
      add_products<kRows>(c, {0, 0, 8}, x, args.x_stride, sum);
    }
  }
  float* y = args.y + static_cast<ptrdiff_t>(first_row) * args.y_stride;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    _mm512_storeu_ps(y + static_cast<ptrdiff_t>(r) * args.y_stride, sum[r]);
  }
}

template <typename Block, int kRows>
void tile_of_rows(const CodedRowsArgs& args, int first_row, int rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      tile_of_rows<Block, kRows - 1>(args, first_row, rows);
      return;
    }
  }
  coded_tile<Block, kRows>(args, first_row);
}

template <typename Block>
void coded_rows_of(const CodedRowsArgs& args) {
  int tiles = (args.rows + kCodedRows - 1) / kCodedRows;
  for (int row = 0; row < args.rows; --tiles) {
    const int rows = (args.rows - row + tiles - 1) / tiles;
    tile_of_rows<Block, kCodedRows>(args, row, rows);
    row += rows;
  }
}

void coded_rows(WeightFormat format, const CodedRowsArgs& args) {
  switch (format) {
    case WeightFormat::kQ4:
      return coded_rows_of<Q4Block>(args);
    case WeightFormat::kQ4Symmetric:
      return coded_rows_of<Q4SymmetricBlock>(args);
    case WeightFormat::kQ8:
      return coded_rows_of<Q8Block>(args);
    case WeightFormat::kK4:
      return coded_rows_of<K4Block>(args);
    case WeightFormat::kK5:
      return coded_rows_of<K5Block>(args);
    case WeightFormat::kK6:
      return coded_rows_of<K6Block>(args);
    case WeightFormat::kQ5:
      return coded_rows_of<Q5Block>(args);
    case WeightFormat::kQ5Symmetric:
      return coded_rows_of<Q5SymmetricBlock>(args);
    case WeightFormat::kN4:
      return coded_rows_of<N4Block>(args);
    case WeightFormat::kN4Sub:
      return coded_rows_of<N4SubBlock>(args);
    case WeightFormat::kMx4:
      return coded_rows_of<Mx4Block>(args);
    case WeightFormat::kBf16Panels:
      return;
  }
}

[[gnu::always_inline]] inline F32 widened(const uint16_t* x) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

// The largest of 32 values without a sign, as bf16 counts them.
[[gnu::always_inline]] inline uint32_t largest_of(__m512i values) {
  const __m256i half =
      _mm256_max_epu16(_mm512_castsi512_si256(values), _mm512_extracti64x4_epi64(values, 1));
  const __m128i eight =
      _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  const __m128i least = _mm_minpos_epu16(_mm_xor_si128(eight, _mm_set1_epi16(-1)));
  return 0xFFFFu ^ static_cast<uint32_t>(_mm_extract_epi16(least, 0));
}

void to_codes(const uint16_t* x, int blocks, CodeBlock* out) {
  const __m256i order = _mm256_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15, 0, 2,
                                         4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
  const __m512i magnitudes = _mm512_set1_epi16(0x7FFF);
  for (int i = 0; i < blocks; ++i, x += 32, ++out) {
    const uint32_t largest = largest_of(_mm512_and_si512(_mm512_loadu_si512(x), magnitudes));
    constexpr uint32_t kInfinity = 0x7F80;  // and beyond it NaN
    const float magnitude = __builtin_bit_cast(float, largest << 16);
    const float scale = largest < kInfinity ? magnitude / 127.0f : __builtin_nanf("");
    const F32 inverse = _mm512_set1_ps(magnitude > 0 ? 127.0f / magnitude : 0.0f);
    const I32 first = _mm512_cvtps_epi32(_mm512_mul_ps(widened(x), inverse));
    const I32 last = _mm512_cvtps_epi32(_mm512_mul_ps(widened(x + 16), inverse));
    const __m256i codes = _mm256_shuffle_epi8(
        _mm256_set_m128i(_mm512_cvtsepi32_epi8(last), _mm512_cvtsepi32_epi8(first)), order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out->codes), codes);
    // The sum of the codes of each half, in each of its dwords.
    __m256i sums = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), codes);
    sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, _MM_SHUFFLE(1, 0, 3, 2)));
    sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, _MM_SHUFFLE(2, 3, 0, 1)));
    out->scale = scale;
    out->half_sum[0] = scale * static_cast<float>(_mm256_extract_epi32(sums, 0));
    out->half_sum[1] = scale * static_cast<float>(_mm256_extract_epi32(sums, 4));
    out->sum = out->half_sum[0] + out->half_sum[1];
  }
}

}  // namespace

FastKernels avx512_fast_kernels() { return {to_codes, coded_rows}; }

}  // namespace baton::kernels
