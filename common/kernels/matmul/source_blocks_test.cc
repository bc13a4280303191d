#include "common/kernels/matmul/source_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "common/kernels/matmul/test_matrices.h"
#include "common/kernels/small/small_ops.h"

namespace baton::kernels {
namespace {

struct Recorded {
  std::vector<std::byte> row;
  std::vector<float> values;
};

// The format is that of tests/data/quants/make_quants.py.
Recorded read_recorded(SourceType type) {
  std::string name = source_type_name(type);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::ifstream file(std::string(BATON_SOURCE_DIR) + "/tests/data/quants/" + name + ".bin",
                     std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  Recorded out;
  uint32_t elements = 0;
  if (bytes.size() < sizeof(elements)) {
    return out;
  }
  std::memcpy(&elements, bytes.data(), sizeof(elements));
  const size_t row_bytes = source_row_bytes(type, static_cast<int>(elements));
  if (bytes.size() != sizeof(elements) + row_bytes + sizeof(float) * elements) {
    return out;
  }
  out.row.resize(row_bytes);
  std::memcpy(out.row.data(), bytes.data() + sizeof(elements), row_bytes);
  out.values.resize(elements);
  std::memcpy(out.values.data(), bytes.data() + sizeof(elements) + row_bytes,
              sizeof(float) * elements);
  return out;
}

class SourceBlocksTest : public testing::TestWithParam<SourceType> {};
INSTANTIATE_TEST_SUITE_P(Types, SourceBlocksTest,
                         testing::ValuesIn(std::span(kAllSourceTypes).subspan(1)),  // not F32
                         [](const auto& type) { return source_type_name(type.param); });

TEST_P(SourceBlocksTest, DequantizesToTheRecordedValuesBitForBit) {
  const Recorded recorded = read_recorded(GetParam());
  ASSERT_EQ(recorded.values.size(), 1024u);
  std::vector<float> got(recorded.values.size());
  dequantize_row(GetParam(), recorded.row.data(), 1024, got.data());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], recorded.values[i]) << "element " << i;
  }
}

TEST_P(SourceBlocksTest, ARangeIsThePartOfTheRow) {
  const Recorded recorded = read_recorded(GetParam());
  ASSERT_EQ(recorded.values.size(), 1024u);
  for (const int begin : {0, 1, 31, 32, 255, 300}) {
    for (const int count : {1, 32, 33, 300}) {
      std::vector<float> got(static_cast<size_t>(count));
      dequantize_range(GetParam(), recorded.row.data(), begin, count, got.data());
      ASSERT_TRUE(std::equal(got.begin(), got.end(), recorded.values.begin() + begin))
          << begin << "+" << count;
    }
  }
}

TEST(SourceBlocksTest, F32IsCopied) {
  const std::vector<float> values = {1.5f, -0.0f, 1e-40f, 3e38f};
  std::vector<float> got(values.size());
  dequantize_row(SourceType::kF32, reinterpret_cast<const std::byte*>(values.data()), 4,
                 got.data());
  EXPECT_EQ(std::memcmp(got.data(), values.data(), sizeof(float) * 4), 0);
}

TEST(SourceBlocksTest, EveryHalfBecomesItsValue) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint32_t exponent = (bits >> 10) & 31;
    const auto fraction = static_cast<float>(bits & 1023);
    const float got = float_from_half(static_cast<uint16_t>(bits));
    if (exponent == 31) {
      EXPECT_TRUE(fraction == 0 ? std::isinf(got) : std::isnan(got)) << bits;
      continue;
    }
    const float size = exponent == 0 ? std::ldexp(fraction, -24)
                                     : std::ldexp(1024 + fraction, static_cast<int>(exponent) - 25);
    ASSERT_EQ(got, (bits & 0x8000) != 0 ? -size : size) << bits;
  }
}

// Packing rounds with it, and every product stands on that.
TEST(SourceBlocksTest, WeightsAreRoundedToNearestEven) {
  const auto rounded = [](uint32_t bits) { return bf16_from_float(std::bit_cast<float>(bits)); };
  EXPECT_EQ(rounded(0x3F800000), 0x3F80);
  EXPECT_EQ(rounded(0x3F808000), 0x3F80);  // a tie, down to even
  EXPECT_EQ(rounded(0x3F818000), 0x3F82);  // a tie, up to even
  EXPECT_EQ(rounded(0x3F808001), 0x3F81);
  EXPECT_EQ(rounded(0x7F7FFFFF), 0x7F80);  // beyond the largest: infinity
  EXPECT_EQ(rounded(0x80000000), 0x8000);
  EXPECT_EQ(rounded(0x7F800001) & 0x7FC0, 0x7FC0);  // a NaN whose payload is cut stays one
}

TEST(SourceBlocksTest, RowsHaveTheSizeOfTheirBlocks) {
  EXPECT_EQ(source_row_bytes(SourceType::kF32, 10), 40u);
  EXPECT_EQ(source_row_bytes(SourceType::kQ4_1, 64), 40u);
  EXPECT_EQ(source_row_bytes(SourceType::kQ6_K, 512), 420u);
  EXPECT_EQ(source_block_elements(SourceType::kQ8_0), 32);
  EXPECT_EQ(source_block_elements(SourceType::kBf16), 1);
}

}  // namespace
}  // namespace baton::kernels
