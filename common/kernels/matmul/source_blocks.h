#pragma once

// Reads the block formats of a model file (GGUF; layouts in docs/formats.md) one run of 32 elements
// at a time. Used while packing; nothing here is on the path of a token.

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/kernels/matmul/matmul.h"

namespace baton::kernels {

// 32 consecutive elements of a quantised row with what turns their codes into weights. Fields that
// a type does not have are zero.
struct SourceBlock {
  std::array<uint8_t, 32> codes;  // Q8_0: the bits of an int8
  uint16_t scale = 0;             // f16: d
  uint16_t offset = 0;            // f16: m of Q4_1 and Q5_1, dmin of Q4_K and Q5_K
  // Q4_K, Q5_K: both the same; Q6_K: bits of int8, per 16; IQ4_XS: bits of int8, both the same;
  // MXFP4: the exponent, in the range of packed_formats.h, both the same.
  std::array<uint8_t, 2> sub_scale{};
  uint8_t sub_offset = 0;  // Q4_K, Q5_K
};

// Precondition: `type` is quantised. Block b is elements [32b, 32b + 32) of the row.
SourceBlock read_source_block(SourceType type, const std::byte* row, int block);

// Exact f32 values of elements [begin, begin + count).
void dequantize_range(SourceType type, const std::byte* row, int begin, int count, float* out);

float float_from_half(uint16_t bits);

}  // namespace baton::kernels
