// The reference: what docs/numerics.md says, one operation after the other.

#include <bit>
#include <cmath>
#include <cstring>

#include "common/kernels/matmul/level_kernels.h"
#include "common/kernels/matmul/matmul.h"
#include "common/kernels/matmul/source_blocks.h"
#include "common/kernels/small/small_ops.h"

namespace baton::kernels {
namespace {

template <typename T>
T load(const std::byte* block, size_t offset, size_t index) {
  T value;
  std::memcpy(&value, block + offset + sizeof(T) * index, sizeof(T));
  return value;
}

float load_half(const std::byte* block, size_t offset, size_t column) {
  return float_from_half(load<uint16_t>(block, offset, column));
}

float nibble(const std::byte* block, size_t offset, size_t column, size_t k) {
  const auto word = load<uint32_t>(block, offset + 64 * (k / 8), column);
  return static_cast<float>((word >> (4 * (k % 8))) & 15);
}

float q4_weight(const std::byte* b, size_t column, size_t k) {
  return std::fma(load_half(b, Q4Block::kScale, column), nibble(b, Q4Block::kNibbles, column, k),
                  load_half(b, Q4Block::kOffset, column));
}

float q4_symmetric_weight(const std::byte* b, size_t column, size_t k) {
  return load_half(b, Q4SymmetricBlock::kScale, column) *
         (nibble(b, Q4SymmetricBlock::kNibbles, column, k) - 8.0f);
}

float q8_weight(const std::byte* b, size_t column, size_t k) {
  return load_half(b, Q8Block::kScale, column) *
         static_cast<float>(load<int8_t>(b, Q8Block::kCodes, kLanes * k + column));
}

template <typename Block>
float scaled_with_offset(const std::byte* b, size_t column, float code) {
  const float scale =
      load_half(b, Block::kScale, column) * load<uint8_t>(b, Block::kSubScale, column);
  const float offset =
      load_half(b, Block::kOffset, column) * load<uint8_t>(b, Block::kSubOffset, column);
  return std::fma(scale, code, -offset);
}

float k4_weight(const std::byte* b, size_t column, size_t k) {
  return scaled_with_offset<K4Block>(b, column, nibble(b, K4Block::kNibbles, column, k));
}

template <typename Block>
float five_bits(const std::byte* b, size_t column, size_t k) {
  const uint32_t high = (load<uint32_t>(b, Block::kHigh, column) >> k) & 1;
  return nibble(b, Block::kNibbles, column, k) + static_cast<float>(16 * high);
}

float k5_weight(const std::byte* b, size_t column, size_t k) {
  return scaled_with_offset<K5Block>(b, column, five_bits<K5Block>(b, column, k));
}

float k6_weight(const std::byte* b, size_t column, size_t k) {
  const size_t half = k / 16;
  const uint32_t high =
      (load<uint32_t>(b, K6Block::kHigh + 64 * half, column) >> (2 * (k % 16))) & 3;
  const float scale = load_half(b, K6Block::kScale, column) *
                      load<int8_t>(b, K6Block::kSubScale + 16 * half, column);
  return scale * (nibble(b, K6Block::kNibbles, column, k) + static_cast<float>(16 * high) - 32.0f);
}

float q5_weight(const std::byte* b, size_t column, size_t k) {
  return std::fma(load_half(b, Q5Block::kScale, column), five_bits<Q5Block>(b, column, k),
                  load_half(b, Q5Block::kOffset, column));
}

float q5_symmetric_weight(const std::byte* b, size_t column, size_t k) {
  return load_half(b, Q5SymmetricBlock::kScale, column) *
         (five_bits<Q5SymmetricBlock>(b, column, k) - 16.0f);
}

template <typename Block>
int nibble_code(const std::byte* b, size_t column, size_t k) {
  return static_cast<int>(nibble(b, Block::kNibbles, column, k));
}

float n4_weight(const std::byte* b, size_t column, size_t k) {
  return load_half(b, N4Block::kScale, column) * kIq4Values[nibble_code<N4Block>(b, column, k)];
}

float n4_sub_weight(const std::byte* b, size_t column, size_t k) {
  const float scale =
      load_half(b, N4SubBlock::kScale, column) * load<int8_t>(b, N4SubBlock::kSubScale, column);
  return scale * kIq4Values[nibble_code<N4SubBlock>(b, column, k)];
}

float mx4_weight(const std::byte* b, size_t column, size_t k) {
  const uint32_t exponent = load<uint8_t>(b, Mx4Block::kExponent, column);
  return std::bit_cast<float>((exponent - 1) << 23) *
         kMxfp4Values[nibble_code<Mx4Block>(b, column, k)];
}

using WeightOf = float (*)(const std::byte* block, size_t column, size_t k);

template <typename Block>
void expand_with(WeightOf weight, const std::byte* packed, int blocks, uint32_t* out) {
  for (int b = 0; b < blocks; ++b, packed += Block::kBytes) {
    for (size_t p = 0; p < kPairs; ++p) {
      for (size_t c = 0; c < kLanes; ++c) {
        const uint32_t even = bf16_from_float(weight(packed, c, 2 * p));
        const uint32_t odd = bf16_from_float(weight(packed, c, 2 * p + 1));
        *out++ = even | (odd << 16);
      }
    }
  }
}

void expand(WeightFormat format, const std::byte* packed, int blocks, uint32_t* out) {
  switch (format) {
    case WeightFormat::kQ4:
      expand_with<Q4Block>(q4_weight, packed, blocks, out);
      break;
    case WeightFormat::kQ4Symmetric:
      expand_with<Q4SymmetricBlock>(q4_symmetric_weight, packed, blocks, out);
      break;
    case WeightFormat::kQ8:
      expand_with<Q8Block>(q8_weight, packed, blocks, out);
      break;
    case WeightFormat::kK4:
      expand_with<K4Block>(k4_weight, packed, blocks, out);
      break;
    case WeightFormat::kK5:
      expand_with<K5Block>(k5_weight, packed, blocks, out);
      break;
    case WeightFormat::kK6:
      expand_with<K6Block>(k6_weight, packed, blocks, out);
      break;
    case WeightFormat::kQ5:
      expand_with<Q5Block>(q5_weight, packed, blocks, out);
      break;
    case WeightFormat::kQ5Symmetric:
      expand_with<Q5SymmetricBlock>(q5_symmetric_weight, packed, blocks, out);
      break;
    case WeightFormat::kN4:
      expand_with<N4Block>(n4_weight, packed, blocks, out);
      break;
    case WeightFormat::kN4Sub:
      expand_with<N4SubBlock>(n4_sub_weight, packed, blocks, out);
      break;
    case WeightFormat::kMx4:
      expand_with<Mx4Block>(mx4_weight, packed, blocks, out);
      break;
    case WeightFormat::kBf16Panels:
      break;
  }
}

void widen(const uint16_t* x, int count, std::byte* row) {
  auto* out = reinterpret_cast<float*>(row);
  for (int i = 0; i < count; ++i) {
    out[i] = std::bit_cast<float>(uint32_t{x[i]} << 16);
  }
}

float dot_block(const uint32_t* weights, int column, const float* x) {
  float even = 0;
  float odd = 0;
  for (int p = 0; p < kPairs; ++p) {
    const uint32_t pair = weights[p * kLanes + column];
    even = std::fma(x[2 * p], std::bit_cast<float>(pair << 16), even);
    odd = std::fma(x[2 * p + 1], std::bit_cast<float>(pair & 0xFFFF0000u), odd);
  }
  return even + odd;
}

void multiply(const MultiplyArgs& args) {
  for (int panel = 0; panel < 2 && args.weights[panel] != nullptr; ++panel) {
    for (int row = 0; row < args.rows; ++row) {
      const float* x = reinterpret_cast<const float*>(args.x) + static_cast<size_t>(row) * kWideRow;
      float* y = args.y + static_cast<ptrdiff_t>(row) * args.y_stride + panel * kLanes;
      for (int block = 0; block < args.blocks; ++block) {
        for (int column = 0; column < kLanes; ++column) {
          y[column] += dot_block(args.weights[panel] + block * kPairDwords, column, x + block * 32);
        }
      }
    }
  }
}

}  // namespace

LevelKernels scalar_matmul_kernels() {
  return {.arrange = widen,
          .row_bytes = kWideRowBytes,
          .expand = expand,
          .multiply = multiply,
          .few_rows = nullptr,
          .max_few_rows = 0};
}

}  // namespace baton::kernels
