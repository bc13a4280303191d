#include "common/kernels/matmul/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "common/device/compute_team.h"
#include "common/device/cpu_info.h"
#include "common/kernels/matmul/level_kernels.h"
#include "common/kernels/matmul/source_blocks.h"
#include "common/kernels/matmul/test_matrices.h"
#include "common/kernels/small/small_ops.h"

namespace baton::kernels {
namespace {

using device::Isa;

// Written from docs/numerics.md, from dequantised rows, without the packed bytes.
std::vector<float> canonical_product(const TestMatrix& w, const std::vector<uint16_t>& x,
                                     int x_stride, int rows, int k_begin, int k) {
  const device::FlushDenormals flush;
  std::vector<float> y(static_cast<size_t>(rows) * static_cast<size_t>(w.n));
  std::vector<float> row_weights(static_cast<size_t>(w.k));
  const int padded = (k + 31) / 32 * 32;
  std::vector<float> b(static_cast<size_t>(padded));
  for (int n = 0; n < w.n; ++n) {
    dequantize_row(w.type, w.row(n), w.k, row_weights.data());
    std::fill(b.begin(), b.end(), 0.0f);
    for (int i = 0; i < k; ++i) {
      const uint32_t bits = bf16_from_float(row_weights[static_cast<size_t>(k_begin + i)]);
      b[static_cast<size_t>(i)] = std::bit_cast<float>(bits << 16);
    }
    for (int r = 0; r < rows; ++r) {
      const uint16_t* a = x.data() + static_cast<size_t>(r) * static_cast<size_t>(x_stride);
      float c = 0;
      for (int block = 0; block < padded; block += 32) {
        float even = 0;
        float odd = 0;
        for (int p = 0; p < 16; ++p) {
          const size_t i = static_cast<size_t>(block + 2 * p);
          even = std::fma(std::bit_cast<float>(uint32_t{a[i]} << 16), b[i], even);
          odd = std::fma(std::bit_cast<float>(uint32_t{a[i + 1]} << 16), b[i + 1], odd);
        }
        c = c + (even + odd);
      }
      y[static_cast<size_t>(r) * static_cast<size_t>(w.n) + static_cast<size_t>(n)] = c;
    }
  }
  return y;
}

PackedMatrix pack(const TestMatrix& w, WeightFormat format, int k_begin, int k) {
  PackedMatrix packed(format, w.n, k);
  // In two calls, so that first_row is more than a formality.
  const std::vector<const std::byte*> rows = w.rows();
  const size_t cut = rows.size() / 2;
  pack_rows(packed, 0, w.type, std::span(rows).first(cut), w.k, k_begin);
  pack_rows(packed, static_cast<int>(cut), w.type, std::span(rows).subspan(cut), w.k, k_begin);
  return packed;
}

// All panels, in two items, with poisoned scratch and output.
// Without y, which is made here.
std::vector<float> run_product(Isa isa, MatmulParams params) {
  const device::FlushDenormals flush;
  const PackedMatrix& w = *params.weights;
  params.y_stride = w.panels() * kPanelRows + 5;
  std::vector<float> y(static_cast<size_t>(params.rows) * static_cast<size_t>(params.y_stride),
                       NAN);
  params.y = y.data();
  const size_t bytes = matmul_scratch_bytes(isa, w.format(), params.rows, w.padded_k());
  std::vector<std::byte> scratch(bytes + 64, std::byte{0xFF});
  auto* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
  const int cut = w.panels() / 3;
  if (cut > 0) {
    matmul(isa, params, 0, cut, aligned);
  }
  matmul(isa, params, cut, w.panels(), aligned);
  std::vector<float> out;
  for (int r = 0; r < params.rows; ++r) {
    const float* row = y.data() + static_cast<ptrdiff_t>(r) * params.y_stride;
    out.insert(out.end(), row, row + w.n());
    EXPECT_TRUE(std::isnan(row[params.y_stride - 1])) << "wrote beyond the padding columns";
  }
  return out;
}

std::vector<float> run_product(Isa isa, const PackedMatrix& w, const std::vector<uint16_t>& x,
                               int x_stride, int rows,
                               Arithmetic arithmetic = Arithmetic::kCanonical) {
  return run_product(
      isa,
      {.weights = &w, .x = x.data(), .x_stride = x_stride, .rows = rows, .arithmetic = arithmetic});
}

::testing::AssertionResult same_bits(const std::vector<float>& got,
                                     const std::vector<float>& want) {
  if (got.size() != want.size()) {
    return ::testing::AssertionFailure() << got.size() << " values instead of " << want.size();
  }
  for (size_t i = 0; i < got.size(); ++i) {
    // The sign of zero and what a NaN carries are outside the promise.
    const bool alike = (got[i] == 0 && want[i] == 0) || (std::isnan(got[i]) && std::isnan(want[i]));
    if (!alike && std::bit_cast<uint32_t>(got[i]) != std::bit_cast<uint32_t>(want[i])) {
      return ::testing::AssertionFailure()
             << "value " << i << " is " << got[i] << " instead of " << want[i];
    }
  }
  return ::testing::AssertionSuccess();
}

struct Shape {
  int n, k;
};

class MatmulTest : public testing::TestWithParam<SourceType> {};

std::string type_name(const testing::TestParamInfo<SourceType>& info) {
  return source_type_name(info.param);
}
INSTANTIATE_TEST_SUITE_P(Types, MatmulTest, testing::ValuesIn(kAllSourceTypes), type_name);

// Compares every available level in both formats of the type with the loop above.
void expect_all_levels_equal(const TestMatrix& w, const std::vector<uint16_t>& x, int x_stride,
                             int rows, int k_begin, int k) {
  const std::vector<float> want = canonical_product(w, x, x_stride, rows, k_begin, k);
  for (const WeightFormat format : {WeightFormat::kBf16Panels, decode_format(w.type, k_begin)}) {
    const PackedMatrix packed = pack(w, format, k_begin, k);
    for (const Isa isa : device::available_isas()) {
      SCOPED_TRACE(std::string(device::isa_name(isa)) + " " +
                   std::string(weight_format_name(format)) + " rows " + std::to_string(rows) +
                   " n " + std::to_string(w.n) + " k " + std::to_string(k));
      ASSERT_TRUE(same_bits(run_product(isa, packed, x, x_stride, rows), want));
    }
  }
}

TEST_P(MatmulTest, EveryLevelGivesTheBitsOfTheCanonicalLoop) {
  TestRandom random(17 + static_cast<uint64_t>(GetParam()));
  const int unit = source_block_elements(GetParam());
  // Rows cover the register path, tiles of every height, a second slice of rows; shapes one panel,
  // an odd number of panels, padding columns, less and more than a chunk of K.
  const std::vector<int> row_counts = {1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 17, 31, 33, 47, 64, 70};
  for (size_t i = 0; i < row_counts.size(); ++i) {
    const int rows = row_counts[i];
    int k = (1 + random.below(10)) * 32;
    if (unit == 1 && i % 2 == 0) {
      k -= 1 + random.below(31);
    } else if (unit > 1) {
      k = (k + unit - 1) / unit * unit;
    }
    const int n = 1 + random.below(60);
    const TestMatrix w = random_matrix(random, GetParam(), n, k);
    const int stride = (k + 31) / 32 * 32 + 32 * random.below(2);
    expect_all_levels_equal(w, random_activations(random, rows, k, stride), stride, rows, 0, k);
  }
}

TEST_P(MatmulTest, PartsOfARowBeginInsideASuperblock) {
  TestRandom random(3);
  const TestMatrix w = random_matrix(random, GetParam(), 20, 768);
  // 96 cuts a superblock of 256 but no block of 32; 72 cuts both.
  for (const int k_begin : {96, 72, 480}) {
    for (const int k : {64, 100, 288}) {
      expect_all_levels_equal(w, random_activations(random, 3, k, 320), 320, 3, k_begin, k);
    }
  }
}

TEST_P(MatmulTest, ManyRowsAreDoneInSlicesWithoutATrace) {
  TestRandom random(5);
  const TestMatrix w = random_matrix(random, GetParam(), 16, 512);
  const int rows = 200;
  const std::vector<uint16_t> x = random_activations(random, rows, 512, 512);
  const std::vector<float> want = canonical_product(w, x, 512, rows, 0, 512);
  const Isa isa = device::available_isas().back();
  for (const WeightFormat format : {WeightFormat::kBf16Panels, decode_format(w.type)}) {
    EXPECT_TRUE(same_bits(run_product(isa, pack(w, format, 0, 512), x, 512, rows), want));
  }
}

TEST(MatmulLevelsTest, DenormalsAndExtremeExponentsGiveTheSameBits) {
  TestRandom random(23);
  for (const SourceType type : {SourceType::kBf16, SourceType::kF32}) {
    for (int round = 0; round < 20; ++round) {
      TestMatrix w = random_matrix(random, type, 19, 96);
      fill_with_extreme_values(random, w);
      std::vector<uint16_t> x = random_activations(random, 5, 96, 96);
      for (uint16_t& v : x) {
        v = random_extreme_bf16(random);
      }
      expect_all_levels_equal(w, x, 96, 5, 0, 96);
    }
  }
}

// The bf16 blocks of one panel; +0 and -0 are one weight.
std::vector<uint32_t> expanded(const LevelKernels& kernels, const PackedMatrix& w, int panel) {
  std::vector<uint32_t> out(static_cast<size_t>(w.blocks_k()) * kPairDwords);
  kernels.expand(w.format(), w.panel(panel), w.blocks_k(), out.data());
  for (uint32_t& pair : out) {
    pair &= (pair & 0x7FFF) == 0 ? 0xFFFF0000u : ~0u;
    pair &= (pair & 0x7FFF0000) == 0 ? 0x0000FFFFu : ~0u;
  }
  return out;
}

// Two panels of one chunk, through memory and (few rows) in registers.
void expect_product(const LevelKernels& kernels, const PackedMatrix& w,
                    const std::vector<uint16_t>& x, int rows, const std::vector<float>& want) {
  std::vector<std::byte> arranged(kernels.row_bytes * static_cast<size_t>(rows));
  for (int row = 0; row < rows; ++row) {
    kernels.arrange(x.data() + row * w.k(), w.k(),
                    arranged.data() + kernels.row_bytes * static_cast<size_t>(row));
  }
  const std::vector<uint32_t> first = expanded(kernels, w, 0);
  const std::vector<uint32_t> second = expanded(kernels, w, 1);
  std::vector<float> y(want.size());
  kernels.multiply({.weights = {first.data(), second.data()},
                    .blocks = w.blocks_k(),
                    .x = arranged.data(),
                    .rows = rows,
                    .y = y.data(),
                    .y_stride = w.n(),
                    .ahead = {w.panel(0), w.panel(1)}});
  EXPECT_TRUE(same_bits(y, want)) << rows << " rows";
  for (int panel = 0; panel < 2 && rows <= kernels.max_few_rows; ++panel) {
    kernels.few_rows(w.format(), {.panel = w.panel(panel),
                                  .blocks = w.blocks_k(),
                                  .x = arranged.data(),
                                  .rows = rows,
                                  .y = y.data() + panel * kPanelRows,
                                  .y_stride = w.n()});
  }
  EXPECT_TRUE(same_bits(y, want)) << rows << " rows";
}

// matmul() takes one set of kernels per level; where AVX-512 has three, all must give the bits.
TEST(MatmulLevelsTest, AllKernelsOfAvx512ExpandAndMultiplyAlike) {
  if (!device::cpu_info().avx512) {
    return;  // the levels that run are compared above
  }
  std::vector<LevelKernels> variants = {avx512_matmul_kernels()};
  if (device::cpu_info().avx512_bf16) {
    variants.push_back(avx512_bf16_matmul_kernels());
    if (dot_is_canonical()) {
      variants.push_back(avx512_dot_matmul_kernels());
    }
  }
  std::printf("avx512 kernels compared: %zu\n", variants.size());
  TestRandom random(31);
  for (const SourceType type : kAllSourceTypes) {
    if (decode_format(type) == WeightFormat::kBf16Panels) {
      continue;
    }
    SCOPED_TRACE(source_type_name(type));
    const TestMatrix m = random_matrix(random, type, 2 * kPanelRows, kChunkK);
    const PackedMatrix w = pack(m, decode_format(type), 0, m.k);
    for (const int rows : {1, 2, 3, 4, 5, 6, 7, 8, 13, 25}) {
      const std::vector<uint16_t> x = random_activations(random, rows, m.k, m.k);
      const std::vector<float> want = canonical_product(m, x, m.k, rows, 0, m.k);
      for (const LevelKernels& kernels : variants) {
        EXPECT_EQ(expanded(kernels, w, 1), expanded(scalar_matmul_kernels(), w, 1));
        expect_product(kernels, w, x, rows, want);
      }
    }
  }
}

// Says what was compared, and fails where a machine with AMX compares less than four levels.
TEST(MatmulLevelsTest, AllLevelsOfThisMachineAreCompared) {
  std::string levels;
  for (const Isa isa : device::available_isas()) {
    levels += " " + std::string(device::isa_name(isa));
  }
  std::printf("matmul levels compared:%s\n", levels.c_str());
  if (device::cpu_info().amx_bf16) {
    EXPECT_EQ(device::available_isas().size(), 4u) << device::amx_refusal();
  }
}

TEST(MatmulLevelsTest, GrainAndScratchArePositive) {
  for (const Isa isa : device::available_isas()) {
    for (const int rows : {1, 16, 500}) {
      EXPECT_GE(matmul_panel_grain(isa, WeightFormat::kQ4, rows, 576), 1);
      EXPECT_GT(matmul_scratch_bytes(isa, WeightFormat::kQ4, rows, 576), 0u);
    }
  }
}

float widened(uint16_t bf16) { return std::bit_cast<float>(uint32_t{bf16} << 16); }

// As CodeBlock says: 8-bit codes of each 32, the largest magnitude at 127.
std::vector<double> coded_activations(const std::vector<uint16_t>& x) {
  std::vector<double> out(x.size());
  for (size_t block = 0; block < x.size(); block += 32) {
    float largest = 0;
    for (size_t i = block; i < block + 32; ++i) {
      largest = std::max(largest, std::fabs(widened(x[i])));
    }
    const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
    for (size_t i = block; i < block + 32; ++i) {
      out[i] = std::nearbyint(widened(x[i]) * inverse) * (double{largest} / 127.0);
    }
  }
  return out;
}

// y within f32 rounding of the exact product of w (rounded to bf16 for panels) and x.
void expect_near_product(const std::vector<float>& y, const TestMatrix& w, bool rounded,
                         const std::vector<double>& x, int x_stride) {
  std::vector<float> weights(static_cast<size_t>(w.k));
  for (int n = 0; n < w.n; ++n) {
    dequantize_row(w.type, w.row(n), w.k, weights.data());
    for (size_t row = 0; row * static_cast<size_t>(w.n) < y.size(); ++row) {
      double sum = 0;
      double magnitude = 0;
      for (size_t i = 0; i < weights.size(); ++i) {
        const double weight = rounded ? widened(bf16_from_float(weights[i])) : weights[i];
        const double product = weight * x[row * static_cast<size_t>(x_stride) + i];
        sum += product;
        magnitude += std::fabs(product);
      }
      ASSERT_NEAR(y[row * static_cast<size_t>(w.n) + static_cast<size_t>(n)], sum,
                  1e-4 * magnitude + 1e-30)
          << "row " << row << " column " << n;
    }
  }
}

TEST_P(MatmulTest, TheFastArithmeticIsThatOfCodesOrOfBf16) {
  TestRandom random(41);
  const int unit = source_block_elements(GetParam());
  for (const Isa isa : device::available_isas()) {
    if (!has_fast_arithmetic(isa)) {
      continue;
    }
    const bool tiles = isa == Isa::kAmx;  // which take the many rows
    for (const int rows : {1, 2, 5, 8, 9, 12, 13, 16, 25, 200}) {
      const int k = (32 * (1 + random.below(20)) + unit - 1) / unit * unit / 32 * 32;
      const TestMatrix w =
          random_matrix(random, GetParam(), 1 + random.below(50), std::max(k, unit));
      const std::vector<uint16_t> x = random_activations(random, rows, w.k, w.k);
      for (const WeightFormat format : {WeightFormat::kBf16Panels, decode_format(w.type)}) {
        SCOPED_TRACE(std::string(device::isa_name(isa)) + " " +
                     std::string(weight_format_name(format)) + " rows " + std::to_string(rows));
        const std::vector<float> y =
            run_product(isa, pack(w, format, 0, w.k), x, w.k, rows, Arithmetic::kFast);
        const bool panels = format == WeightFormat::kBf16Panels || (tiles && rows > 8);
        std::vector<double> values = coded_activations(x);
        if (panels) {
          std::ranges::transform(x, values.begin(), widened);
        }
        expect_near_product(y, w, panels, values, w.k);
        std::vector<CodeBlock> codes(x.size() / kBlockK);
        code_row(x.data(), static_cast<int>(codes.size()), codes.data());  // rows lie side by side
        const PackedMatrix packed = pack(w, format, 0, w.k);
        EXPECT_EQ(y, run_product(isa, {.weights = &packed,
                                       .x = x.data(),
                                       .x_stride = w.k,
                                       .rows = rows,
                                       .arithmetic = Arithmetic::kFast,
                                       .codes = codes.data(),
                                       .codes_stride = w.k / kBlockK}));
      }
    }
  }
}

TEST(MatmulLevelsTest, WhatIsNotFiniteStaysSoInTheFastArithmetic) {
  const Isa isa = device::available_isas().back();
  TestRandom random(43);
  for (const SourceType type : {SourceType::kQ4_1, SourceType::kQ8_0, SourceType::kBf16}) {
    const TestMatrix w = random_matrix(random, type, 16, 96);
    for (const uint16_t bad : {uint16_t{0x7FC0}, uint16_t{0x7F80}}) {
      std::vector<uint16_t> x = random_activations(random, 2, 96, 96);
      x[40] = bad;
      const std::vector<float> y =
          run_product(isa, pack(w, decode_format(type), 0, 96), x, 96, 2, Arithmetic::kFast);
      for (int n = 0; n < 16; ++n) {
        EXPECT_FALSE(std::isfinite(y[static_cast<size_t>(n)]));
        EXPECT_TRUE(std::isfinite(y[static_cast<size_t>(16 + n)]));
      }
    }
  }
}

using MatmulDeathTest = testing::Test;

// FNV-1a over the packed bytes of one matrix of each of these source types, as prefill and as
// decode pools keep it.
uint64_t packed_fingerprint(std::span<const SourceType> types) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const SourceType type : types) {
    for (const WeightFormat format : {WeightFormat::kBf16Panels, decode_format(type)}) {
      TestRandom random(7);
      const TestMatrix source = random_matrix(random, type, 35, 512);
      PackedMatrix matrix(format, source.n, source.k);
      pack_rows(matrix, 0, type, source.rows(), source.k, 0);
      for (const std::byte byte : std::span(matrix.panel(0), matrix.bytes())) {
        hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001B3;
      }
    }
  }
  return hash;
}

TEST(MatmulLevelsTest, PackedBytesChangeOnlyWithTheirVersion) {
  // Files hold these bytes: whoever changes them raises kPackedVersion, then notes both here.
  EXPECT_EQ(kPackedVersion, 1u);
  EXPECT_EQ(packed_fingerprint(std::span(kAllSourceTypes).first(9)), 11297419109218797666u);
  EXPECT_EQ(packed_fingerprint(std::span(kAllSourceTypes).subspan(9)), 12164993523365273409u);
}

TEST(MatmulLevelsTest, ADecodePoolTakesLittleMoreThanTheFile) {
  for (const SourceType type : kAllSourceTypes) {
    // Those two keep the f16 scales of their superblock with every block of 32.
    const bool repeated = type == SourceType::kQ4_K || type == SourceType::kQ5_K;
    const size_t source = source_row_bytes(type, 2048) * 64;
    EXPECT_LE(static_cast<double>(packed_bytes(decode_format(type), 64, 2048)),
              (repeated ? 1.23 : 1.15) * static_cast<double>(source))
        << source_type_name(type);
  }
}

TEST(MatmulLevelsTest, PlacedMatricesLieInTheirOwnersMemory) {
  TestRandom random(3);
  const TestMatrix source = random_matrix(random, SourceType::kQ8_0, 20, 64);
  PackedMatrix own(WeightFormat::kQ8, 20, 64);
  PackedMatrix placed = PackedMatrix::unplaced(WeightFormat::kQ8, 20, 64);
  ASSERT_EQ(placed.bytes(), own.bytes());
  std::vector<std::byte> room(own.bytes() + 64);
  std::byte* const memory = room.data() + (64 - reinterpret_cast<uintptr_t>(room.data()) % 64);
  placed.place(memory);
  EXPECT_EQ(placed.panel(0), memory);
  pack_rows(own, 0, source.type, source.rows(), 64, 0);
  pack_rows(placed, 0, source.type, source.rows(), 64, 0);
  EXPECT_EQ(std::memcmp(memory, own.panel(0), own.bytes()), 0);
}

TEST(MatmulDeathTest, PackingARowsPartBeyondItsEndDies) {
  TestRandom random(1);
  const TestMatrix w = random_matrix(random, SourceType::kQ4_0, 4, 64);
  const std::vector<const std::byte*> rows = w.rows();
  PackedMatrix packed(WeightFormat::kBf16Panels, 4, 64);
  EXPECT_DEATH(pack_rows(packed, 0, w.type, rows, 64, 32), "rows do not fit");
  EXPECT_DEATH(pack_rows(packed, 1, w.type, rows, 64, 0), "rows do not fit");
}

TEST(MatmulDeathTest, PackingIntoAnotherTypesFormatDies) {
  TestRandom random(1);
  const TestMatrix w = random_matrix(random, SourceType::kQ4_0, 4, 64);
  const std::vector<const std::byte*> rows = w.rows();
  PackedMatrix packed(WeightFormat::kQ8, 4, 64);
  EXPECT_DEATH(pack_rows(packed, 0, w.type, rows, 64, 0), "does not fit the packed format");
}

}  // namespace
}  // namespace baton::kernels
