#include "common/model_file/tensor_type.h"

#include <gtest/gtest.h>

namespace baton::model_file {
namespace {

TEST(TensorTypeTest, KnowsBlocksOfEveryTypeItReads) {
  for (const auto type :
       {TensorType::kF32, TensorType::kF16, TensorType::kBF16, TensorType::kQ4_0, TensorType::kQ4_1,
        TensorType::kQ8_0, TensorType::kQ4_K, TensorType::kQ5_K, TensorType::kQ6_K}) {
    const TensorTypeInfo& info = tensor_type_info(type);
    EXPECT_EQ(info.type, type);
    EXPECT_EQ(info.name, tensor_type_name(static_cast<uint32_t>(type)));
    EXPECT_EQ(tensor_type_from_number(static_cast<uint32_t>(type)), type);
    EXPECT_GT(info.block_bytes, 0u);
  }
  EXPECT_EQ(tensor_type_info(TensorType::kQ4_K).block_bytes, 144u);
  EXPECT_EQ(tensor_type_info(TensorType::kQ6_K).block_bytes, 210u);
}

TEST(TensorTypeTest, NamesTypesItDoesNotRead) {
  EXPECT_EQ(tensor_type_from_number(6), std::nullopt);
  EXPECT_EQ(tensor_type_name(6), "Q5_0");
  EXPECT_EQ(tensor_type_name(39), "MXFP4");
  EXPECT_EQ(tensor_type_name(31), "unknown");
  EXPECT_EQ(tensor_type_name(4000000000u), "unknown");
}

}  // namespace
}  // namespace baton::model_file
