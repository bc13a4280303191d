#include "common/model_file/model_hash.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "common/model_file/testing/gguf_builder.h"

namespace baton::model_file {
namespace {

GgufBuilder base() {
  GgufBuilder builder;
  builder.add_string("general.architecture", "llama")
      .add_u32("llama.block_count", 3)
      .add_string("general.name", "x")
      .add_tensor("a", 0, {2}, "12345678")
      .add_tensor("b", 0, {1, 2}, "abcdefgh");
  return builder;
}

U128 hash_of(const GgufBuilder& builder) {
  const std::string bytes = builder.build();
  const auto file = parse_text(bytes);
  EXPECT_TRUE(file.ok()) << file.status().to_string();
  const auto hash = model_hash(*file);
  EXPECT_TRUE(hash.ok()) << hash.status().to_string();
  return *hash;
}

TEST(ModelHashTest, IgnoresOrderAlignmentAndDescriptiveKeys) {
  GgufBuilder other;
  other.alignment = 64;
  other.add_u32("general.alignment", 64)
      .add_string("general.name", "y")
      .add_u32("llama.block_count", 3)
      .add_string("general.architecture", "llama")
      .add_tensor("b", 0, {1, 2}, "abcdefgh")
      .add_tensor("a", 0, {2}, "12345678");
  EXPECT_EQ(hash_of(base()), hash_of(other));
  EXPECT_FALSE(hash_of(base()).is_zero());
}

TEST(ModelHashTest, SeesEveryChangeOfGraphTableAndData) {
  const auto variant = [](uint32_t blocks, std::string_view name, std::vector<int64_t> dims,
                          std::string_view data, std::string_view architecture = "llama") {
    GgufBuilder builder;
    builder.add_string("general.architecture", architecture)
        .add_u32(std::string(architecture) + ".block_count", blocks)
        .add_tensor("a", 0, {2}, "12345678")
        .add_tensor(name, 0, dims, data);
    return hash_of(builder);
  };
  const U128 same = variant(3, "b", {1, 2}, "abcdefgh");
  EXPECT_EQ(same, hash_of(base()));
  EXPECT_NE(same, variant(4, "b", {1, 2}, "abcdefgh"));
  EXPECT_NE(same, variant(3, "c", {1, 2}, "abcdefgh"));
  EXPECT_NE(same, variant(3, "b", {2, 1}, "abcdefgh"));
  EXPECT_NE(same, variant(3, "b", {2}, "abcdefgh"));
  EXPECT_NE(same, variant(3, "b", {1, 2}, "abcdefgi"));
  EXPECT_NE(same, variant(3, "b", {1, 2}, "abcdefgh", "other"));
}

TEST(ModelHashTest, NeedsAnArchitecture) {
  const std::string bytes = GgufBuilder().add_u32("x", 1).build();
  EXPECT_FALSE(model_hash(*parse_text(bytes)).ok());
}

}  // namespace
}  // namespace baton::model_file
