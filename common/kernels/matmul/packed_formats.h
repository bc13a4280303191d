#pragma once

// The bytes of packed weights. A matrix is panels of 16 output rows (called columns here: they are
// columns of y and lanes of a vector); a panel is blocks of 32 along K, ascending. One block:
//
//   kBf16Panels    dword[16 pairs][16 columns], low half = element 2p, high half = element 2p + 1.
//                  This is the B tile of AMX.
//   kQ4            f16 scale[16], f16 offset[16], nibbles          w = scale * q + offset
//   kQ4Symmetric   f16 scale[16], nibbles                          w = scale * (q - 8)
//   kQ8            f16 scale[16], int8 q[32 elements][16 columns]  w = scale * q
//   kK4            f16 d[16], f16 dmin[16], u8 s[16], u8 m[16], nibbles
//                                                                  w = (d * s) * q - dmin * m
//   kK5            as kK4, then dword high[16]: bit k is bit 4 of the code of element k
//   kK6            f16 d[16], i8 s[2 halves][16], nibbles, dword high[2 halves][16]: bits 2j, 2j +
//                  1 are bits 4, 5 of the code of element 16 half + j
//                                                                  w = (d * s[half]) * (q - 32)
//   kQ5            f16 scale[16], f16 offset[16], nibbles, high    w = scale * q + offset
//   kQ5Symmetric   f16 scale[16], nibbles, high                    w = scale * (q - 16)
//   kN4            f16 scale[16], nibbles                          w = scale * kIq4Values[q]
//   kN4Sub         f16 d[16], i8 s[16], nibbles                    w = (d * s) * kIq4Values[q]
//   kMx4           u8 e[16], nibbles                               w = 2^(e - 128) *
//   kMxfp4Values[q] high           as in kK5 nibbles        dword[4 groups][16 columns]: nibble j
//   of group g = code of element 8g + j
//
// All products are exact in f32 (docs/numerics.md), so the order of multiplications is free.

#include <cstddef>
#include <cstdint>

namespace baton::kernels {

// How a packed matrix stores its weights; the comment at the head of this file has the bytes.
enum class WeightFormat : uint8_t {
  kBf16Panels,   // prefill: bf16 pairs, also the AMX tile layout
  kQ4,           // 4-bit codes, f16 scale and f16 offset per 32: Q4_1
  kQ4Symmetric,  // 4-bit codes, f16 scale per 32: Q4_0
  kQ8,           // 8-bit codes, f16 scale per 32: Q8_0
  kK4,           // 4-bit codes, 8-bit scale and offset of f16 ones per 32: Q4_K
  kK5,           // 5-bit codes, else as kK4: Q5_K
  kK6,           // 6-bit codes, 8-bit scale of an f16 one per 16: Q6_K
  kQ5,           // 5-bit codes, f16 scale and f16 offset per 32: Q5_1
  kQ5Symmetric,  // 5-bit codes, f16 scale per 32: Q5_0
  kN4,           // 4-bit codes of a table, f16 scale per 32: IQ4_NL
  kN4Sub,        // 4-bit codes of a table, 8-bit scale of an f16 one per 32: IQ4_XS
  kMx4,          // 4-bit codes of a table, power of two per 32: MXFP4
};

// Changes whenever a packed matrix of the same weights has other bytes: files hold them.
inline constexpr uint64_t kPackedVersion = 1;

inline constexpr int kLanes = 16;                    // columns of a panel
inline constexpr int kPairs = 16;                    // pairs of elements in a block
inline constexpr int kPairDwords = kPairs * kLanes;  // of a bf16 block
inline constexpr size_t kNibbleBytes = 256;

// Byte offsets inside a block.
struct Bf16Block {
  static constexpr size_t kBytes = 1024;
};
struct Q4Block {
  static constexpr size_t kScale = 0, kOffset = 32, kNibbles = 64, kBytes = 320;
};
struct Q4SymmetricBlock {
  static constexpr size_t kScale = 0, kNibbles = 32, kBytes = 288;
};
struct Q8Block {
  static constexpr size_t kScale = 0, kCodes = 32, kBytes = 544;
};
struct K4Block {
  static constexpr size_t kScale = 0, kOffset = 32, kSubScale = 64, kSubOffset = 80, kNibbles = 96,
                          kBytes = 352;
};
struct K5Block {
  static constexpr size_t kScale = 0, kOffset = 32, kSubScale = 64, kSubOffset = 80, kNibbles = 96,
                          kHigh = 352, kBytes = 416;
};
struct K6Block {
  static constexpr size_t kScale = 0, kSubScale = 32, kNibbles = 64, kHigh = 320, kBytes = 448;
};
struct Q5Block {
  static constexpr size_t kScale = 0, kOffset = 32, kNibbles = 64, kHigh = 320, kBytes = 384;
};
struct Q5SymmetricBlock {
  static constexpr size_t kScale = 0, kNibbles = 32, kHigh = 288, kBytes = 352;
};
struct N4Block {
  static constexpr size_t kScale = 0, kNibbles = 32, kBytes = 288;
};
struct N4SubBlock {
  static constexpr size_t kScale = 0, kSubScale = 32, kNibbles = 48, kBytes = 304;
};
struct Mx4Block {
  static constexpr size_t kExponent = 0, kNibbles = 16, kBytes = 272;
};

// 32 activations as 8-bit codes, x = scale * code: scale is the largest magnitude over 127.
struct CodeBlock {
  // Eight dwords: the elements 8g + 0, 2, 4, 6 and 8g + 1, 3, 5, 7 of each group g of eight, as
  // packed nibbles lie.
  int8_t codes[32];
  float scale;
  float sum;          // of scale * code
  float half_sum[2];  // of the first 16 elements, of the last
};

// What the codes of the types with a table stand for (docs/formats.md).
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr int8_t kMxfp4Values[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                            0, -1, -2, -3, -4, -6, -8, -12};
// Exponents of MXFP4 are taken as if they lay in this range, whose powers of two are normal and
// whose products stay below 2^110, where the rounding to bf16 ends. No weight of a model is 2^90.
inline constexpr uint8_t kLeastMx4Exponent = 2;
inline constexpr uint8_t kMostMx4Exponent = 230;

}  // namespace baton::kernels
