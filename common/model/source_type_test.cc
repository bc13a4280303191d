#include "common/model/source_type.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace baton::model {
namespace {

using model_file::TensorType;

struct Oracle {
  const char* file;
  TensorType type;
};

class SourceTypeTest : public ::testing::TestWithParam<Oracle> {};

// Recorded from the gguf package (tests/data/dequantize/make_vectors.py), hostile scales included.
TEST_P(SourceTypeTest, DequantizesToTheExactValuesOfTheOracle) {
  const std::string path =
      std::string(BATON_SOURCE_DIR "/tests/data/dequantize/") + GetParam().file + ".bin";
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  ASSERT_GT(bytes.size(), 4u) << path;
  uint32_t elements = 0;
  std::memcpy(&elements, bytes.data(), sizeof(elements));
  const auto type = source_type(GetParam().type);
  const size_t row_bytes = kernels::source_row_bytes(type, static_cast<int>(elements));
  ASSERT_EQ(bytes.size(), 4 + row_bytes + 4 * size_t{elements});
  const auto& info = model_file::tensor_type_info(GetParam().type);
  EXPECT_EQ(row_bytes, elements / info.block_elements * info.block_bytes);

  std::vector<float> expected(elements);
  std::memcpy(expected.data(), bytes.data() + 4 + row_bytes, 4 * size_t{elements});
  std::vector<float> actual(elements);
  kernels::dequantize_row(type, reinterpret_cast<const std::byte*>(bytes.data() + 4),
                          static_cast<int>(elements), actual.data());
  for (uint32_t i = 0; i < elements; ++i) {
    // The sign of zero and the payload of a NaN are outside the promise (docs/numerics.md).
    const bool both_nan = std::isnan(expected[i]) && std::isnan(actual[i]);
    EXPECT_TRUE(both_nan || expected[i] == actual[i])
        << "element " << i << ": " << actual[i] << ", expected " << expected[i];
  }
}

INSTANTIATE_TEST_SUITE_P(
    AllTypes, SourceTypeTest,
    ::testing::Values(Oracle{"f32", TensorType::kF32}, Oracle{"f16", TensorType::kF16},
                      Oracle{"bf16", TensorType::kBF16}, Oracle{"q4_0", TensorType::kQ4_0},
                      Oracle{"q4_1", TensorType::kQ4_1}, Oracle{"q8_0", TensorType::kQ8_0},
                      Oracle{"q4_k", TensorType::kQ4_K}, Oracle{"q5_k", TensorType::kQ5_K},
                      Oracle{"q6_k", TensorType::kQ6_K}, Oracle{"q5_0", TensorType::kQ5_0},
                      Oracle{"q5_1", TensorType::kQ5_1}, Oracle{"iq4_nl", TensorType::kIQ4_NL},
                      Oracle{"iq4_xs", TensorType::kIQ4_XS}, Oracle{"mxfp4", TensorType::kMXFP4}),
    [](const auto& test) { return std::string(test.param.file); });

}  // namespace
}  // namespace baton::model
