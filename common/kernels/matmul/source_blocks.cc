#include "common/kernels/matmul/source_blocks.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace baton::kernels {
namespace {

constexpr int kSuperblock = 256;

struct TypeInfo {
  int block_elements;
  int block_bytes;
};

TypeInfo type_info(SourceType type) {
  switch (type) {
    case SourceType::kF32:
      return {1, 4};
    case SourceType::kF16:
    case SourceType::kBf16:
      return {1, 2};
    case SourceType::kQ4_0:
      return {32, 18};
    case SourceType::kQ4_1:
      return {32, 20};
    case SourceType::kQ5_0:
      return {32, 22};
    case SourceType::kQ5_1:
      return {32, 24};
    case SourceType::kQ8_0:
      return {32, 34};
    case SourceType::kQ4_K:
      return {kSuperblock, 144};
    case SourceType::kQ5_K:
      return {kSuperblock, 176};
    case SourceType::kQ6_K:
      return {kSuperblock, 210};
    case SourceType::kIq4Nl:
      return {32, 18};
    case SourceType::kIq4Xs:
      return {kSuperblock, 136};
    case SourceType::kMxfp4:
      return {32, 17};
  }
  return {1, 4};
}

uint16_t load_u16(const uint8_t* p) { return static_cast<uint16_t>(p[0] | (p[1] << 8)); }

void read_nibbles_of_32(const uint8_t* qs, SourceBlock& out) {
  for (size_t j = 0; j < 16; ++j) {
    out.codes[j] = qs[j] & 15;
    out.codes[j + 16] = qs[j] >> 4;
  }
}

// Bit k of `qh` is bit 4 of the code of element k.
void read_five_bits_of_32(const uint8_t* qh, const uint8_t* qs, SourceBlock& out) {
  read_nibbles_of_32(qs, out);
  for (size_t k = 0; k < 32; ++k) {
    out.codes[k] = static_cast<uint8_t>(out.codes[k] | (((qh[k / 8] >> (k % 8)) & 1) << 4));
  }
}

// Scale and offset of sub-block j of a Q4_K or Q5_K superblock: 6 bits each in 12 bytes.
void read_k_scales(const uint8_t* s, int j, SourceBlock& out) {
  uint8_t scale = 0;
  if (j < 4) {
    scale = s[j] & 63;
    out.sub_offset = s[j + 4] & 63;
  } else {
    scale = static_cast<uint8_t>((s[j + 4] & 15) | ((s[j - 4] >> 6) << 4));
    out.sub_offset = static_cast<uint8_t>((s[j + 4] >> 4) | ((s[j] >> 6) << 4));
  }
  out.sub_scale = {scale, scale};
}

void read_q4_k(const uint8_t* block, int sub, SourceBlock& out) {
  out.scale = load_u16(block);
  out.offset = load_u16(block + 2);
  read_k_scales(block + 4, sub, out);
  const uint8_t* qs = block + 16 + 32 * (sub / 2);
  for (size_t l = 0; l < 32; ++l) {
    out.codes[l] = (sub % 2 == 0) ? qs[l] & 15 : qs[l] >> 4;
  }
}

void read_q5_k(const uint8_t* block, int sub, SourceBlock& out) {
  out.scale = load_u16(block);
  out.offset = load_u16(block + 2);
  read_k_scales(block + 4, sub, out);
  const uint8_t* qh = block + 16;
  const uint8_t* qs = block + 48 + 32 * (sub / 2);
  for (size_t l = 0; l < 32; ++l) {
    const int low = (sub % 2 == 0) ? qs[l] & 15 : qs[l] >> 4;
    out.codes[l] = static_cast<uint8_t>(low | (((qh[l] >> sub) & 1) << 4));
  }
}

void read_q6_k(const uint8_t* block, int sub, SourceBlock& out) {
  const int half = sub / 4;
  const int quarter = sub % 4;
  const uint8_t* ql = block + 64 * half + 32 * (quarter % 2);
  const uint8_t* qh = block + 128 + 32 * half;
  const uint8_t* scales = block + 192 + 8 * half + 2 * quarter;
  for (size_t l = 0; l < 32; ++l) {
    const int low = (quarter < 2) ? ql[l] & 15 : ql[l] >> 4;
    out.codes[l] = static_cast<uint8_t>(low | (((qh[l] >> (2 * quarter)) & 3) << 4));
  }
  out.sub_scale = {scales[0], scales[1]};
  out.scale = load_u16(block + 208);
}

// f16 d, u16 high bits of the scales, 4 bytes of their low nibbles, codes.
void read_iq4_xs(const uint8_t* block, int sub, SourceBlock& out) {
  out.scale = load_u16(block);
  const int high = (load_u16(block + 2) >> (2 * sub)) & 3;
  const int low = (block[4 + sub / 2] >> (4 * (sub % 2))) & 15;
  const auto scale = static_cast<uint8_t>((low | (high << 4)) - 32);
  out.sub_scale = {scale, scale};
  read_nibbles_of_32(block + 8 + 16 * sub, out);
}

void read_mxfp4(const uint8_t* block, SourceBlock& out) {
  const uint8_t exponent = std::clamp(block[0], kLeastMx4Exponent, kMostMx4Exponent);
  out.sub_scale = {exponent, exponent};
  read_nibbles_of_32(block + 1, out);
}

// 2^(exponent - 128) for an exponent >= 2.
float mx4_scale(uint8_t exponent) { return std::bit_cast<float>((uint32_t{exponent} - 1) << 23); }

// The 32 weights of a block.
void dequantize_block(SourceType type, const SourceBlock& b, float* out) {
  const float d = float_from_half(b.scale);
  const float m = float_from_half(b.offset);
  for (size_t l = 0; l < 32; ++l) {
    const auto code = static_cast<float>(b.codes[l]);
    switch (type) {
      case SourceType::kQ4_0:
        out[l] = (code - 8.0f) * d;
        break;
      case SourceType::kQ4_1:
        out[l] = code * d + m;
        break;
      case SourceType::kQ5_0:
        out[l] = (code - 16.0f) * d;
        break;
      case SourceType::kQ5_1:
        out[l] = code * d + m;
        break;
      case SourceType::kQ8_0:
        out[l] = static_cast<float>(static_cast<int8_t>(b.codes[l])) * d;
        break;
      case SourceType::kQ4_K:
      case SourceType::kQ5_K:
        out[l] = (d * b.sub_scale[0]) * code - m * b.sub_offset;
        break;
      case SourceType::kQ6_K:
        out[l] = (d * static_cast<int8_t>(b.sub_scale[l / 16])) * (code - 32.0f);
        break;
      case SourceType::kIq4Nl:
        out[l] = d * kIq4Values[b.codes[l]];
        break;
      case SourceType::kIq4Xs:
        out[l] = (d * static_cast<int8_t>(b.sub_scale[0])) * kIq4Values[b.codes[l]];
        break;
      case SourceType::kMxfp4:
        out[l] = mx4_scale(b.sub_scale[0]) * kMxfp4Values[b.codes[l]];
        break;
      case SourceType::kF32:
      case SourceType::kF16:
      case SourceType::kBf16:
        break;
    }
  }
}

}  // namespace

float float_from_half(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = (bits >> 10) & 31;
  uint32_t mantissa = bits & 1023;
  if (exponent == 31) {
    return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  }
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  }
  if (mantissa == 0) {
    return std::bit_cast<float>(sign);
  }
  const int shift = std::countl_zero(mantissa) - 21;  // brings the first bit to position 10
  mantissa = (mantissa << shift) & 1023;
  return std::bit_cast<float>(sign | (static_cast<uint32_t>(113 - shift) << 23) | (mantissa << 13));
}

int source_block_elements(SourceType type) { return type_info(type).block_elements; }

size_t source_row_bytes(SourceType type, int elements) {
  const TypeInfo info = type_info(type);
  return static_cast<size_t>(elements / info.block_elements) *
         static_cast<size_t>(info.block_bytes);
}

SourceBlock read_source_block(SourceType type, const std::byte* row, int block) {
  const TypeInfo info = type_info(type);
  const int per_block = std::max(info.block_elements / 32, 1);
  const int sub = block % per_block;
  const auto* p = reinterpret_cast<const uint8_t*>(row) +
                  static_cast<size_t>(block / per_block) * static_cast<size_t>(info.block_bytes);
  SourceBlock out{};
  switch (type) {
    case SourceType::kQ4_0:
      out.scale = load_u16(p);
      read_nibbles_of_32(p + 2, out);
      break;
    case SourceType::kQ4_1:
      out.scale = load_u16(p);
      out.offset = load_u16(p + 2);
      read_nibbles_of_32(p + 4, out);
      break;
    case SourceType::kQ5_0:
      out.scale = load_u16(p);
      read_five_bits_of_32(p + 2, p + 6, out);
      break;
    case SourceType::kQ5_1:
      out.scale = load_u16(p);
      out.offset = load_u16(p + 2);
      read_five_bits_of_32(p + 4, p + 8, out);
      break;
    case SourceType::kIq4Nl:
      out.scale = load_u16(p);
      read_nibbles_of_32(p + 2, out);
      break;
    case SourceType::kIq4Xs:
      read_iq4_xs(p, sub, out);
      break;
    case SourceType::kMxfp4:
      read_mxfp4(p, out);
      break;
    case SourceType::kQ8_0:
      out.scale = load_u16(p);
      std::memcpy(out.codes.data(), p + 2, 32);
      break;
    case SourceType::kQ4_K:
      read_q4_k(p, sub, out);
      break;
    case SourceType::kQ5_K:
      read_q5_k(p, sub, out);
      break;
    case SourceType::kQ6_K:
      read_q6_k(p, sub, out);
      break;
    case SourceType::kF32:
    case SourceType::kF16:
    case SourceType::kBf16:
      BATON_CHECK(false, "not a quantised type");
  }
  return out;
}

void dequantize_range(SourceType type, const std::byte* row, int begin, int count, float* out) {
  if (type == SourceType::kF32) {
    std::memcpy(out, row + size_t{4} * static_cast<size_t>(begin),
                size_t{4} * static_cast<size_t>(count));
    return;
  }
  if (type == SourceType::kF16 || type == SourceType::kBf16) {
    const auto* p = reinterpret_cast<const uint8_t*>(row) + size_t{2} * static_cast<size_t>(begin);
    for (int i = 0; i < count; ++i) {
      const uint16_t bits = load_u16(p + size_t{2} * static_cast<size_t>(i));
      out[i] = (type == SourceType::kF16) ? float_from_half(bits)
                                          : std::bit_cast<float>(uint32_t{bits} << 16);
    }
    return;
  }
  std::array<float, 32> values;
  for (int i = 0; i < count;) {
    const int within = (begin + i) % 32;
    const int take = std::min(32 - within, count - i);
    dequantize_block(type, read_source_block(type, row, (begin + i) / 32), values.data());
    std::copy_n(values.begin() + within, take, out + i);
    i += take;
  }
}

void dequantize_row(SourceType type, const std::byte* row, int elements, float* out) {
  dequantize_range(type, row, 0, elements, out);
}

}  // namespace baton::kernels
