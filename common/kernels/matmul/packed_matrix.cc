#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/base/check.h"
#include "common/kernels/matmul/matmul.h"
#include "common/kernels/matmul/packed_formats.h"
#include "common/kernels/matmul/source_blocks.h"
#include "common/kernels/small/small_ops.h"

namespace baton::kernels {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t block_bytes(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBf16Panels:
      return Bf16Block::kBytes;
    case WeightFormat::kQ4:
      return Q4Block::kBytes;
    case WeightFormat::kQ4Symmetric:
      return Q4SymmetricBlock::kBytes;
    case WeightFormat::kQ8:
      return Q8Block::kBytes;
    case WeightFormat::kK4:
      return K4Block::kBytes;
    case WeightFormat::kK5:
      return K5Block::kBytes;
    case WeightFormat::kK6:
      return K6Block::kBytes;
    case WeightFormat::kQ5:
      return Q5Block::kBytes;
    case WeightFormat::kQ5Symmetric:
      return Q5SymmetricBlock::kBytes;
    case WeightFormat::kN4:
      return N4Block::kBytes;
    case WeightFormat::kN4Sub:
      return N4SubBlock::kBytes;
    case WeightFormat::kMx4:
      return Mx4Block::kBytes;
  }
  return 0;
}

void store_u16(std::byte* block, size_t offset, size_t column, uint16_t value) {
  std::memcpy(block + offset + 2 * column, &value, sizeof(value));
}

void store_u32(std::byte* block, size_t offset, size_t column, uint32_t value) {
  std::memcpy(block + offset + 4 * column, &value, sizeof(value));
}

void store_nibbles(std::byte* block, size_t offset, size_t column, const SourceBlock& source) {
  for (size_t group = 0; group < 4; ++group) {
    uint32_t word = 0;
    for (size_t j = 0; j < 8; ++j) {
      word |= uint32_t{source.codes[8 * group + j] & 15u} << (4 * j);
    }
    store_u32(block, offset + 64 * group, column, word);
  }
}

// Bit 4 of every code.
void store_fifth_bits(std::byte* block, size_t offset, size_t column, const SourceBlock& source) {
  uint32_t high = 0;
  for (size_t k = 0; k < 32; ++k) {
    high |= static_cast<uint32_t>(source.codes[k] >> 4) << k;
  }
  store_u32(block, offset, column, high);
}

template <typename Block>
void store_superblock_scales(std::byte* block, size_t column, const SourceBlock& source) {
  store_u16(block, Block::kScale, column, source.scale);
  store_u16(block, Block::kOffset, column, source.offset);
  block[Block::kSubScale + column] = static_cast<std::byte>(source.sub_scale[0]);
  block[Block::kSubOffset + column] = static_cast<std::byte>(source.sub_offset);
}

void store_k6(std::byte* block, size_t column, const SourceBlock& source) {
  store_u16(block, K6Block::kScale, column, source.scale);
  for (size_t half = 0; half < 2; ++half) {
    block[K6Block::kSubScale + 16 * half + column] = static_cast<std::byte>(source.sub_scale[half]);
    uint32_t high = 0;
    for (size_t j = 0; j < 16; ++j) {
      high |= static_cast<uint32_t>(source.codes[16 * half + j] >> 4) << (2 * j);
    }
    store_u32(block, K6Block::kHigh + 64 * half, column, high);
  }
  store_nibbles(block, K6Block::kNibbles, column, source);
}

void store_block(WeightFormat format, std::byte* block, size_t column, const SourceBlock& source) {
  switch (format) {
    case WeightFormat::kQ4:
      store_u16(block, Q4Block::kScale, column, source.scale);
      store_u16(block, Q4Block::kOffset, column, source.offset);
      store_nibbles(block, Q4Block::kNibbles, column, source);
      break;
    case WeightFormat::kQ4Symmetric:
      store_u16(block, Q4SymmetricBlock::kScale, column, source.scale);
      store_nibbles(block, Q4SymmetricBlock::kNibbles, column, source);
      break;
    case WeightFormat::kQ8:
      store_u16(block, Q8Block::kScale, column, source.scale);
      for (size_t k = 0; k < 32; ++k) {
        block[Q8Block::kCodes + kLanes * k + column] = static_cast<std::byte>(source.codes[k]);
      }
      break;
    case WeightFormat::kK4:
      store_superblock_scales<K4Block>(block, column, source);
      store_nibbles(block, K4Block::kNibbles, column, source);
      break;
    case WeightFormat::kK5:
      store_superblock_scales<K5Block>(block, column, source);
      store_nibbles(block, K5Block::kNibbles, column, source);
      store_fifth_bits(block, K5Block::kHigh, column, source);
      break;
    case WeightFormat::kK6:
      store_k6(block, column, source);
      break;
    case WeightFormat::kQ5:
      store_u16(block, Q5Block::kScale, column, source.scale);
      store_u16(block, Q5Block::kOffset, column, source.offset);
      store_nibbles(block, Q5Block::kNibbles, column, source);
      store_fifth_bits(block, Q5Block::kHigh, column, source);
      break;
    case WeightFormat::kQ5Symmetric:
      store_u16(block, Q5SymmetricBlock::kScale, column, source.scale);
      store_nibbles(block, Q5SymmetricBlock::kNibbles, column, source);
      store_fifth_bits(block, Q5SymmetricBlock::kHigh, column, source);
      break;
    case WeightFormat::kN4:
      store_u16(block, N4Block::kScale, column, source.scale);
      store_nibbles(block, N4Block::kNibbles, column, source);
      break;
    case WeightFormat::kN4Sub:
      store_u16(block, N4SubBlock::kScale, column, source.scale);
      block[N4SubBlock::kSubScale + column] = static_cast<std::byte>(source.sub_scale[0]);
      store_nibbles(block, N4SubBlock::kNibbles, column, source);
      break;
    case WeightFormat::kMx4:
      block[Mx4Block::kExponent + column] = static_cast<std::byte>(source.sub_scale[0]);
      store_nibbles(block, Mx4Block::kNibbles, column, source);
      break;
    case WeightFormat::kBf16Panels:
      break;
  }
}

void store_bf16_row(const float* values, int count, std::byte* panel, size_t column) {
  for (int p = 0; 2 * p < count; ++p) {
    const uint32_t even = bf16_from_float(values[2 * p]);
    const uint32_t odd = (2 * p + 1 < count) ? bf16_from_float(values[2 * p + 1]) : 0;
    // Pairs of consecutive blocks follow each other, 16 dwords apart.
    store_u32(panel, size_t{64} * static_cast<size_t>(p), column, even | (odd << 16));
  }
}

}  // namespace

std::string_view weight_format_name(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBf16Panels:
      return "bf16";
    case WeightFormat::kQ4:
      return "q4";
    case WeightFormat::kQ4Symmetric:
      return "q4_symmetric";
    case WeightFormat::kQ8:
      return "q8";
    case WeightFormat::kK4:
      return "k4";
    case WeightFormat::kK5:
      return "k5";
    case WeightFormat::kK6:
      return "k6";
    case WeightFormat::kQ5:
      return "q5";
    case WeightFormat::kQ5Symmetric:
      return "q5_symmetric";
    case WeightFormat::kN4:
      return "n4";
    case WeightFormat::kN4Sub:
      return "n4_sub";
    case WeightFormat::kMx4:
      return "mx4";
  }
  return "unknown";
}

PackedMatrix::PackedMatrix(WeightFormat format, int n, int k) : format_(format), n_(n), k_(k) {
  BATON_CHECK(n > 0 && k > 0, "a packed matrix has rows and columns");
  // Huge pages need a 2 MiB boundary, which mmap alone does not promise: map one page more.
  const bool huge = bytes() >= kHugePage;
  const size_t mapped = bytes() + (huge ? kHugePage : 0);
  void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  BATON_CHECK(base != MAP_FAILED, "out of memory for packed weights");
  auto* begin = static_cast<std::byte*>(base);
  size_t usable = mapped;
  if (huge) {
    const size_t skip = (kHugePage - reinterpret_cast<uintptr_t>(base) % kHugePage) % kHugePage;
    if (skip > 0) {
      munmap(base, skip);
    }
    begin += skip;
    usable -= skip;
    madvise(begin, usable, MADV_HUGEPAGE);  // a wish; without it pages are just smaller
  }
  data_ = std::unique_ptr<std::byte[], Free>(begin, Free{usable});
}

PackedMatrix PackedMatrix::unplaced(WeightFormat format, int n, int k) {
  BATON_CHECK(n > 0 && k > 0, "a packed matrix has rows and columns");
  PackedMatrix matrix;
  matrix.format_ = format;
  matrix.n_ = n;
  matrix.k_ = k;
  return matrix;
}

void PackedMatrix::place(std::byte* memory) {
  constexpr uintptr_t kAlignment = 64;
  BATON_CHECK(reinterpret_cast<uintptr_t>(memory) % kAlignment == 0, "packed memory is aligned");
  data_ = std::unique_ptr<std::byte[], Free>(memory, Free{0});
}

void PackedMatrix::Free::operator()(std::byte* p) const {
  if (mapped_bytes > 0) {
    munmap(p, mapped_bytes);
  }
}

size_t packed_bytes(WeightFormat format, int n, int k) {
  const auto panels = (static_cast<size_t>(n) + kPanelRows - 1) / kPanelRows;
  const auto blocks = (static_cast<size_t>(k) + kBlockK - 1) / kBlockK;
  return panels * blocks * block_bytes(format);
}

size_t PackedMatrix::panel_bytes() const {
  return block_bytes(format_) * static_cast<size_t>(blocks_k());
}

WeightFormat decode_format(SourceType type, int k_begin) {
  if (k_begin % kBlockK != 0) {
    return WeightFormat::kBf16Panels;
  }
  switch (type) {
    case SourceType::kF32:
    case SourceType::kF16:
    case SourceType::kBf16:
      return WeightFormat::kBf16Panels;
    case SourceType::kQ4_0:
      return WeightFormat::kQ4Symmetric;
    case SourceType::kQ4_1:
      return WeightFormat::kQ4;
    case SourceType::kQ8_0:
      return WeightFormat::kQ8;
    case SourceType::kQ4_K:
      return WeightFormat::kK4;
    case SourceType::kQ5_K:
      return WeightFormat::kK5;
    case SourceType::kQ6_K:
      return WeightFormat::kK6;
    case SourceType::kQ5_0:
      return WeightFormat::kQ5Symmetric;
    case SourceType::kQ5_1:
      return WeightFormat::kQ5;
    case SourceType::kIq4Nl:
      return WeightFormat::kN4;
    case SourceType::kIq4Xs:
      return WeightFormat::kN4Sub;
    case SourceType::kMxfp4:
      return WeightFormat::kMx4;
  }
  return WeightFormat::kBf16Panels;
}

void pack_rows(PackedMatrix& matrix, int first_row, SourceType type,
               std::span<const std::byte* const> rows, int row_elements, int k_begin) {
  const WeightFormat format = matrix.format();
  BATON_CHECK(format == WeightFormat::kBf16Panels || format == decode_format(type, k_begin),
              "source type does not fit the packed format");
  BATON_CHECK(k_begin >= 0 && k_begin <= row_elements - matrix.k() && first_row >= 0 &&
                  rows.size() <= static_cast<size_t>(matrix.n() - first_row) &&
                  row_elements % source_block_elements(type) == 0,
              "rows do not fit the packed matrix");
  std::vector<float> values(format == WeightFormat::kBf16Panels ? static_cast<size_t>(matrix.k())
                                                                : 0);
  const size_t bytes = block_bytes(format);
  for (size_t i = 0; i < rows.size(); ++i) {
    const int row = first_row + static_cast<int>(i);
    std::byte* panel = matrix.mutable_panel(row / kPanelRows);
    const auto column = static_cast<size_t>(row % kPanelRows);
    if (format == WeightFormat::kBf16Panels) {
      dequantize_range(type, rows[i], k_begin, matrix.k(), values.data());
      store_bf16_row(values.data(), matrix.k(), panel, column);
      continue;
    }
    for (int block = 0; block < matrix.blocks_k(); ++block) {
      store_block(format, panel + bytes * static_cast<size_t>(block), column,
                  read_source_block(type, rows[i], k_begin / kBlockK + block));
    }
  }
}

}  // namespace baton::kernels
