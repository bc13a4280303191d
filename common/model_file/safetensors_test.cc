#include "common/model_file/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/model_file/testing/safetensors_builder.h"

namespace baton::model_file {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<std::vector<SafetensorsTensor>> parse(const std::string& bytes) {
  return parse_safetensors(std::as_bytes(std::span(bytes)));
}
std::string error_of(const std::string& bytes) {
  const auto tensors = parse(bytes);
  return tensors.ok() ? "" : tensors.status().to_string();
}
std::string one(std::string_view json, std::string_view data = std::string_view("\0\0\0\0", 4)) {
  return SafetensorsBuilder().add_entry("t", json).add_data(data).build();
}

TEST(SafetensorsTest, ReadsEveryDtypeInTheOrderOfItsData) {
  const std::string bytes = SafetensorsBuilder()
                                .add_entry("__metadata__", "{\"format\":\"pt\"}")
                                .add("b", "F16", {2, 3}, std::string(12, 'b'))
                                .add("a", "BF16", {1}, std::string(2, 'a'))
                                .add("c", "F32", {1, 1, 2}, std::string(8, 'c'))
                                .build();
  const auto tensors = parse(bytes);
  ASSERT_TRUE(tensors.ok()) << tensors.status().to_string();
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ((*tensors)[0].name, "b");
  EXPECT_EQ((*tensors)[0].type, TensorType::kF16);
  EXPECT_THAT((*tensors)[0].shape, ElementsAre(2, 3));
  EXPECT_EQ((*tensors)[1].data[1], std::byte{'a'});
  EXPECT_EQ((*tensors)[2].data.size(), 8u);
}

TEST(SafetensorsTest, EveryTruncationIsAnError) {
  const std::string bytes = SafetensorsBuilder().add("t", "F32", {2}, std::string(8, 'x')).build();
  EXPECT_EQ(error_of(bytes), "");
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(error_of(bytes.substr(0, size)), "") << size;
  }
  EXPECT_THAT(error_of(bytes.substr(0, bytes.size() - 1)), HasSubstr("the file is truncated"));
}

TEST(SafetensorsTest, RefusesWhatItDoesNotReadByName) {
  EXPECT_EQ(error_of(SafetensorsBuilder().add("w", "F8_E4M3", {4}, "abcd").build()),
            "unsupported: tensor 'w' has dtype 'F8_E4M3'; Baton reads F32 F16 BF16");
}

TEST(SafetensorsTest, RefusesHeadersThatCannotBe) {
  EXPECT_THAT(error_of(std::string(8, '\xFF') + "{}"), HasSubstr("is no safetensors file"));
  EXPECT_THAT(error_of(std::string("\x02\0\0\0\0\0\0\0[]", 10)), HasSubstr("no JSON object"));
  EXPECT_THAT(error_of(std::string("\x02\0\0\0\0\0\0\0{x", 10)), HasSubstr("is no JSON"));
  EXPECT_THAT(error_of(one("3")), HasSubstr("has no 'dtype'"));
  EXPECT_THAT(error_of(one("{\"dtype\":\"F32\"}")), HasSubstr("has no 'shape'"));
  for (const char* shape : {"[]", "[1,1,1,1,1]", "3", "[0]", "[-1]", "[1.5]", "[4294967297]"}) {
    EXPECT_THAT(error_of(one("{\"dtype\":\"F32\",\"shape\":" + std::string(shape) +
                             ",\"data_offsets\":[0,4]}")),
                HasSubstr("dimension"))
        << shape;
  }
}

TEST(SafetensorsTest, RefusesDataOutOfPlace) {
  const auto placed = [](const std::string& offsets, const std::string& shape = "[1]") {
    return error_of(
        one("{\"dtype\":\"F32\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}"));
  };
  EXPECT_EQ(placed("[0,4]"), "");
  EXPECT_THAT(placed("[0]"), HasSubstr("two numbers"));
  EXPECT_THAT(placed("[4,0]"), HasSubstr("no range"));
  EXPECT_THAT(placed("[0,8]"), HasSubstr("ends at byte 8 of 4 bytes"));
  EXPECT_THAT(placed("[0,18446744073709551615]"), HasSubstr("the file is truncated"));
  EXPECT_THAT(placed("[0,4]", "[2]"), HasSubstr("not what its shape and dtype take"));
  EXPECT_THAT(placed("[0,4]", "[4294967296,4294967296,4294967296,4294967296]"),
              HasSubstr("not what its shape and dtype take"));
  EXPECT_THAT(placed("[0,0]"), HasSubstr("not what its shape and dtype take"));
  EXPECT_THAT(error_of(SafetensorsBuilder()
                           .add("a", "F32", {1}, "aaaa")
                           .add_data("hole")
                           .add("b", "F32", {1}, "bbbb")
                           .build()),
              HasSubstr("tensor 'b' does not begin where the one before it ends"));
  EXPECT_THAT(error_of(SafetensorsBuilder().add("a", "F32", {1}, "aaaa").add_data("more").build()),
              HasSubstr("bytes behind its last tensor"));
  const std::string same = "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}";
  EXPECT_THAT(
      error_of(
          SafetensorsBuilder().add_entry("a", same).add_entry("b", same).add_data("aaaa").build()),
      HasSubstr("does not begin where"));
}

}  // namespace
}  // namespace baton::model_file
