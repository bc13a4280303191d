#include "common/model_file/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/model_file/testing/gguf_builder.h"

namespace baton::model_file {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kF32Number = 0;

GgufBuilder small_file() {
  GgufBuilder builder;
  builder.add_string("general.architecture", "llama")
      .add_u32("llama.block_count", 3)
      .add_f32("llama.eps", 0.5F)
      .add_bool("flag", true)
      .add_strings("tokens", {"a", "", "\xC4\xA0the"})
      .add_array<int32_t>("types", 5, {1, -2, 3})
      .add_array<float>("scores", 6, {0.5F, -1.0F})
      .add_tensor("w", TensorType::kQ8_0, {64, 3})
      .add_tensor("b", kF32Number, {2}, std::string("\0\0\x80\x3F\0\0\0\x40", 8));
  return builder;
}

std::string error_of(const std::string& bytes, const GgufLimits& limits = {}) {
  const auto file = parse_text(bytes, limits);
  return file.ok() ? "" : file.status().to_string();
}

TEST(GgufTest, ReadsMetadataOfEveryType) {
  const std::string bytes = small_file().build();
  const auto file = parse_text(bytes);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(*file->get_string("general.architecture"), "llama");
  EXPECT_EQ(*file->get_u32("llama.block_count"), 3u);
  EXPECT_EQ(*file->get_u64("llama.block_count"), 3u);
  EXPECT_EQ(*file->get_f32("llama.eps"), 0.5F);
  EXPECT_TRUE(*file->get_bool("flag"));
  EXPECT_THAT(*file->get_strings("tokens"), ElementsAre("a", "", "\xC4\xA0the"));
  EXPECT_THAT(*file->get_i32s("types"), ElementsAre(1, -2, 3));
  EXPECT_THAT(*file->get_f32s("scores"), ElementsAre(0.5F, -1.0F));
  EXPECT_EQ(file->metadata().size(), 7u);
}

TEST(GgufTest, TakesAnyIntegerTypeWhereTheValueFits) {
  GgufBuilder builder;
  builder.add_scalar<uint8_t>("u8", 0, 200)
      .add_scalar<int8_t>("i8", 1, -1)
      .add_scalar<uint16_t>("u16", 2, 60000)
      .add_scalar<int16_t>("i16", 3, 7)
      .add_scalar<int32_t>("i32", 5, -5)
      .add_scalar<uint64_t>("u64", 10, uint64_t{1} << 40)
      .add_scalar<int64_t>("i64", 11, 9)
      .add_scalar<double>("f64", 12, 0.25);
  const std::string bytes = builder.build();
  const auto file = parse_text(bytes);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(*file->get_u32("u8"), 200u);
  EXPECT_EQ(*file->get_u32("u16"), 60000u);
  EXPECT_EQ(*file->get_u32("i16"), 7u);
  EXPECT_EQ(*file->get_u32("i64"), 9u);
  EXPECT_EQ(*file->get_f32("f64"), 0.25F);
  EXPECT_EQ(*file->get_u64("u64"), uint64_t{1} << 40);
  EXPECT_THAT(file->get_u32("u64").status().message(), HasSubstr("below 2^32"));
  EXPECT_EQ(file->get_u32("i8").status().message(),
            "test.gguf: metadata key 'i8' is i8, not a non-negative integer");
  EXPECT_FALSE(file->get_u64("i32").ok());
}

TEST(GgufTest, NamesMissingKeysAndWrongTypes) {
  const std::string bytes = small_file().build();
  const auto file = parse_text(bytes);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->get_u32("llama.x").status().message(),
            "test.gguf: metadata key 'llama.x' (u32) is missing");
  EXPECT_EQ(file->get_u32("tokens").status().message(),
            "test.gguf: metadata key 'tokens' is an array of string, not a non-negative integer");
  EXPECT_EQ(file->get_strings("types").status().message(),
            "test.gguf: metadata key 'types' is an array of i32, not an array of string");
  EXPECT_FALSE(file->get_string("flag").ok());
  EXPECT_FALSE(file->get_bool("llama.eps").ok());
  EXPECT_FALSE(file->get_f32("flag").ok());
  EXPECT_FALSE(file->get_i32s("scores").ok());
  EXPECT_FALSE(file->get_f32s("types").ok());
}

TEST(GgufTest, AnOptionalKeyMayBeMissingButNotOfAnotherType) {
  const std::string bytes = small_file().build();
  const auto file = parse_text(bytes);
  ASSERT_TRUE(file.ok());
  EXPECT_FALSE((*file->find_u32("absent")).has_value());
  EXPECT_FALSE((*file->find_f32("absent")).has_value());
  EXPECT_FALSE((*file->find_bool("absent")).has_value());
  EXPECT_FALSE((*file->find_string("absent")).has_value());
  EXPECT_EQ(**file->find_u32("llama.block_count"), 3u);
  EXPECT_EQ(**file->find_string("general.architecture"), "llama");
  EXPECT_EQ(**file->find_f32("llama.eps"), 0.5F);
  EXPECT_TRUE(**file->find_bool("flag"));
  EXPECT_FALSE(file->find_u32("flag").ok());
}

TEST(GgufTest, GivesRowsOfTensors) {
  const std::string bytes = small_file().build();
  const auto file = parse_text(bytes);
  ASSERT_TRUE(file.ok());
  const TensorInfo* w = file->find_tensor("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->type, TensorType::kQ8_0);
  EXPECT_EQ(w->row_elements(), 64u);
  EXPECT_EQ(w->rows(), 3u);
  EXPECT_EQ(w->row_bytes(), 68u);
  EXPECT_EQ(w->row(2).data(), w->data.data() + 136);
  EXPECT_EQ(dims_to_string(*w), "[64, 3]");
  const TensorInfo* b = *file->get_tensor("b");
  EXPECT_EQ(b->data.size(), 8u);
  EXPECT_EQ((b->data.data() - reinterpret_cast<const std::byte*>(bytes.data())) % 32, 0);
  EXPECT_EQ(file->find_tensor("c"), nullptr);
  EXPECT_EQ(file->get_tensor("c").status().message(), "test.gguf: tensor 'c' is missing");
}

TEST(GgufTest, ViewsStayValidWhenTheFileMoves) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "gguf_test_move.gguf";
  const std::string bytes = small_file().build();
  std::ofstream(path, std::ios::binary) << bytes;
  auto opened = ModelFile::open(path.string());
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  std::filesystem::remove(path);
  const auto name = *opened->get_string("general.architecture");
  const ModelFile moved = std::move(*opened);
  EXPECT_EQ(name, "llama");
  EXPECT_EQ(moved.find_tensor("b")->data[2], std::byte{0x80});
  EXPECT_EQ(moved.identity().bytes, bytes.size());
}

TEST(GgufTest, SaysWhatIsWrongWithAPath) {
  const std::string dir = ::testing::TempDir();
  EXPECT_EQ(ModelFile::open("/nonexistent/model.gguf").status().to_string(),
            "not_found: /nonexistent/model.gguf: no such file; give the path of a .gguf file or a "
            "model folder");
  EXPECT_THAT(ModelFile::open(dir).status().message(), HasSubstr("is a directory"));
  EXPECT_THAT(ModelFile::open("/dev/null").status().message(), HasSubstr("not a regular file"));
  const auto path = std::filesystem::path(dir) / "gguf_test_empty.gguf";
  std::ofstream(path).close();
  EXPECT_THAT(ModelFile::open(path.string()).status().message(), HasSubstr("is empty"));
  std::filesystem::remove(path);
}

TEST(GgufTest, NamesWhatPeopleHandOverInstead) {
  EXPECT_EQ(error_of("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"),
            "invalid_argument: test.gguf: is a git-lfs pointer, not the model; fetch the file "
            "itself with `git lfs pull`");
  EXPECT_THAT(error_of("<!DOCTYPE html><html></html>"), HasSubstr("is an HTML page"));
  EXPECT_THAT(error_of("PK\x03\x04" + std::string(30, 'x')), HasSubstr("is a zip archive"));
  std::string safetensors;
  GgufBuilder::put(safetensors, uint64_t{20});
  EXPECT_THAT(error_of(safetensors + "{\"__metadata__\":{}}  "), HasSubstr("safetensors"));
  EXPECT_THAT(error_of("tjgg\1\0\0\0"), HasSubstr("older than GGUF"));
  EXPECT_EQ(error_of("hello"),
            "invalid_argument: test.gguf: does not start with 'GGUF'; give a GGUF model file");
  EXPECT_THAT(error_of(""), HasSubstr("does not start with 'GGUF'"));
}

TEST(GgufTest, RefusesOtherVersionsAndByteOrders) {
  auto builder = small_file();
  builder.version = 2;
  EXPECT_THAT(error_of(builder.build()), HasSubstr("is GGUF version 2; Baton reads version 3"));
  builder.version = 0x03000000;
  EXPECT_THAT(error_of(builder.build()), HasSubstr("big-endian"));
}

TEST(GgufTest, EveryTruncationIsAnError) {
  const std::string bytes = small_file().build();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(error_of(bytes.substr(0, size)), "") << size;
  }
  EXPECT_EQ(error_of(bytes), "");
  EXPECT_THAT(error_of(bytes.substr(0, bytes.size() - 1)), HasSubstr("the file is truncated"));
}

TEST(GgufTest, RefusesCountsAndLengthsBeyondTheLimits) {
  auto builder = small_file();
  builder.announced_tensors = -1;
  EXPECT_THAT(error_of(builder.build()), HasSubstr("announces -1 tensors"));
  builder.announced_tensors = int64_t{1} << 62;
  EXPECT_THAT(error_of(builder.build()), HasSubstr("at most 131072 are read"));
  builder = small_file();
  builder.announced_entries = int64_t{1} << 40;
  EXPECT_THAT(error_of(builder.build()), HasSubstr("metadata entries; at most 65536"));

  GgufLimits limits;
  limits.max_string_bytes = 4;
  EXPECT_THAT(error_of(small_file().build(), limits), HasSubstr("at most 4 are read"));
  limits = {};
  limits.max_array_elements = 2;
  EXPECT_THAT(error_of(small_file().build(), limits), HasSubstr("announces 3 elements"));
  limits = {};
  limits.max_name_bytes = 5;
  EXPECT_THAT(error_of(small_file().build(), limits), HasSubstr("a metadata key"));
}

TEST(GgufTest, RefusesMetadataItCannotRead) {
  EXPECT_THAT(error_of(GgufBuilder().add_raw("k", 13, "x").build()), HasSubstr("has type 13"));
  std::string nested;
  GgufBuilder::put(nested, uint32_t{9});
  EXPECT_THAT(error_of(GgufBuilder().add_raw("k", 9, nested).build()),
              HasSubstr("'k' is an array of arrays"));
  EXPECT_THAT(error_of(GgufBuilder().add_raw("k", 7, "\x02").build()), HasSubstr("type is bool"));
  EXPECT_THAT(error_of(GgufBuilder().add_u32("", 1).build()), HasSubstr("empty key"));
  EXPECT_THAT(error_of(GgufBuilder().add_u32("k", 1).add_u32("j", 1).add_u32("k", 2).build()),
              HasSubstr("has the metadata key 'k' twice"));
}

TEST(GgufTest, EscapesTextOfTheFileInMessages) {
  EXPECT_THAT(error_of(GgufBuilder().add_raw("a\n\x1B[31m\xFF", 13, "x").build()),
              HasSubstr("'a\\x0a\\x1b[31m\\xff'"));
}

TEST(GgufTest, RefusesWrongAlignment) {
  for (const uint32_t alignment : {0u, 4u, 48u, 1u << 21}) {
    EXPECT_THAT(error_of(GgufBuilder().add_u32("general.alignment", alignment).build()),
                HasSubstr("power of two"));
  }
  EXPECT_THAT(error_of(GgufBuilder().add_string("general.alignment", "x").build()),
              HasSubstr("is no u32"));
  GgufBuilder builder;
  builder.alignment = 64;
  builder.add_u32("general.alignment", 64).add_tensor("t", TensorType::kF32, {8});
  EXPECT_EQ(error_of(builder.build()), "");
}

TEST(GgufTest, RefusesWrongDimensions) {
  const std::string data(64, '\0');
  EXPECT_THAT(error_of(GgufBuilder().add_tensor("t", kF32Number, {}, data).build()),
              HasSubstr("'t' has 0 dimensions; 1 to 4"));
  EXPECT_THAT(error_of(GgufBuilder().add_tensor("t", kF32Number, {1, 1, 1, 1, 1}, data).build()),
              HasSubstr("has 5 dimensions"));
  EXPECT_THAT(error_of(GgufBuilder().add_tensor("t", kF32Number, {4, 0}, data).build()),
              HasSubstr("dimension 1 is 0"));
  EXPECT_THAT(error_of(GgufBuilder().add_tensor("t", kF32Number, {-4}, data).build()),
              HasSubstr("dimension 0 is -4"));
  const int64_t huge = int64_t{1} << 32;
  EXPECT_THAT(
      error_of(GgufBuilder().add_tensor("t", kF32Number, {huge, huge, huge, huge}, data).build()),
      HasSubstr("larger than the whole file"));
  EXPECT_THAT(error_of(GgufBuilder().add_tensor("t", 8, {40, 2}, data).build()),
              HasSubstr("rows of 40 elements; Q8_0 needs a multiple of 32"));
}

TEST(GgufTest, RefusesTensorTypesByNameAndNumber) {
  EXPECT_EQ(error_of(GgufBuilder().add_tensor("t", 10, {256}, std::string(84, '\0')).build()),
            "unsupported: test.gguf: tensor 't' has type Q2_K (10); Baton reads F32 F16 BF16 Q4_0 "
            "Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4");
  EXPECT_THAT(error_of(GgufBuilder()
                           .add_tensor("a", 11, {256}, "")
                           .add_tensor("b", 0, {1}, "1234")
                           .add_tensor("c", 10, {256}, "")
                           .add_tensor("d", 11, {256}, "")
                           .build()),
              HasSubstr("tensor 'a' has type Q3_K (11), and 2 more have one of Q2_K (10) Q3_K "
                        "(11); Baton reads F32"));
  EXPECT_THAT(error_of(GgufBuilder().add_tensor("t", 4, {32}, "").build()),
              HasSubstr("type unknown (4)"));
  EXPECT_THAT(error_of(GgufBuilder().add_tensor("t", 0xFFFFFFFF, {32}, "").build()),
              HasSubstr("type unknown (4294967295)"));
}

TEST(GgufTest, RefusesTensorsOutOfPlace) {
  const std::string data(64, '\0');
  EXPECT_THAT(error_of(GgufBuilder().add_tensor("t", kF32Number, {16}, data, 8).build()),
              HasSubstr("starts at offset 8, no multiple of the alignment 32"));
  EXPECT_THAT(error_of(GgufBuilder().add_tensor("t", kF32Number, {16}, data, 32).build()),
              HasSubstr("takes bytes 32 + 64 of a data section of 64"));
  EXPECT_THAT(
      error_of(GgufBuilder().add_tensor("t", kF32Number, {16}, data, ~uint64_t{31}).build()),
      HasSubstr("the file is truncated"));
  GgufBuilder overlap;
  overlap.add_tensor("a", kF32Number, {16}, data).add_tensor("b", kF32Number, {8}, data, 32);
  EXPECT_THAT(error_of(overlap.build()), HasSubstr("tensors 'a' and 'b' overlap"));
  GgufBuilder same;
  same.add_tensor("a", kF32Number, {8}, data).add_tensor("b", kF32Number, {8}, data, 0);
  EXPECT_THAT(error_of(same.build()), HasSubstr("overlap"));
  GgufBuilder twin;
  twin.add_tensor("a", kF32Number, {16}, data).add_tensor("a", kF32Number, {16}, data);
  EXPECT_THAT(error_of(twin.build()), HasSubstr("has the tensor 'a' twice"));
  EXPECT_THAT(error_of(GgufBuilder().add_tensor("", kF32Number, {16}, data).build()),
              HasSubstr("empty name"));
}

TEST(GgufTest, ReadsTheDefaultModel) {
  const auto file = ModelFile::open(BATON_SOURCE_DIR "/models/smollm2-135m-instruct-q4_1.gguf");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->tensors().size(), 272u);
  EXPECT_EQ(file->metadata().size(), 33u);
  EXPECT_EQ(file->get_strings("tokenizer.ggml.tokens")->size(), 49152u);
  EXPECT_EQ(file->get_strings("tokenizer.ggml.merges")->front(), "\xC4\xA0 t");
  const TensorInfo* embedding = file->find_tensor("token_embd.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->type, TensorType::kQ8_0);
  EXPECT_EQ(dims_to_string(*embedding), "[576, 49152]");
}

}  // namespace
}  // namespace baton::model_file
