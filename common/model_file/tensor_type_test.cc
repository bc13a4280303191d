#include "common/model_file/tensor_type.h"

#include <gtest/gtest.h>

namespace baton::model_file {
namespace {

TEST(TensorTypeTest, KnowsBlocksOfEveryTypeItReads) {
  EXPECT_EQ(tensor_types().size(), 14u);
  for (const TensorTypeInfo& listed : tensor_types()) {
    const TensorType type = listed.type;
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
  EXPECT_EQ(tensor_type_from_number(10), std::nullopt);
  EXPECT_EQ(tensor_type_name(10), "Q2_K");
  EXPECT_EQ(tensor_type_name(39), "MXFP4");
  EXPECT_EQ(tensor_type_name(31), "unknown");
  EXPECT_EQ(tensor_type_name(4000000000u), "unknown");
}

}  // namespace
}  // namespace baton::model_file
