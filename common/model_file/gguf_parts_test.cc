#include "common/model_file/gguf_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/model_file/model_hash.h"
#include "common/model_file/testing/gguf_builder.h"

namespace baton::model_file {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class GgufPartsTest : public ::testing::Test {
 protected:
  GgufPartsTest()
      : folder_(fs::temp_directory_path() / ("gguf_parts." + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~GgufPartsTest() override { fs::remove_all(folder_); }

  static GgufBuilder& add_split(GgufBuilder& builder, int number, int count, int tensors) {
    return builder.add_scalar<uint16_t>("split.no", 2, static_cast<uint16_t>(number))
        .add_scalar<uint16_t>("split.count", 2, static_cast<uint16_t>(count))
        .add_scalar<int32_t>("split.tensors.count", 5, tensors);
  }
  static GgufBuilder with_metadata() {
    GgufBuilder builder;
    builder.add_string("general.architecture", "llama").add_u32("llama.block_count", 3);
    return builder;
  }
  static void add_tensor(GgufBuilder& builder, const std::string& name, char fill) {
    builder.add_tensor(name, 0, {8}, std::string(32, fill));
  }

  std::string path(int number, int count = 3) const {
    char suffix[40];
    std::snprintf(suffix, sizeof(suffix), "m-%05d-of-%05d.gguf", number, count);
    return (folder_ / suffix).string();
  }
  void write(const std::string& where, const GgufBuilder& builder) const {
    std::ofstream(where, std::ios::binary) << builder.build();
  }
  // Tensors z, m, a in parts 1, 2, 3.
  void write_model() const {
    GgufBuilder first = with_metadata();
    add_tensor(add_split(first, 0, 3, 3), "z", 'z');
    write(path(1), first);
    GgufBuilder second;
    add_tensor(add_split(second, 1, 3, 3), "m", 'm');
    write(path(2), second);
    GgufBuilder third;
    add_tensor(add_split(third, 2, 3, 3), "a", 'a');
    write(path(3), third);
  }
  std::string error_of(const std::string& where) const {
    const auto file = ModelFile::open(where);
    return file.ok() ? "" : file.status().to_string();
  }

  fs::path folder_;
};

TEST_F(GgufPartsTest, AnyPartOpensAllWithTheHashOfTheWholeFile) {
  write_model();
  GgufBuilder whole = with_metadata();
  add_tensor(whole, "z", 'z');
  add_tensor(whole, "m", 'm');
  add_tensor(whole, "a", 'a');
  const std::string bytes = whole.build();
  const auto one = parse_text(bytes);
  ASSERT_TRUE(one.ok());
  for (int number = 1; number <= 3; ++number) {
    const auto file = ModelFile::open(path(number));
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    EXPECT_EQ(file->name(), path(1));
    ASSERT_EQ(file->tensors().size(), 3u);
    for (const char* name : {"a", "m", "z"}) {
      const TensorInfo* tensor = file->find_tensor(name);
      ASSERT_NE(tensor, nullptr);
      EXPECT_EQ(tensor->data[31], static_cast<std::byte>(name[0]));
    }
    EXPECT_EQ(*file->get_u32("llama.block_count"), 3u);
    EXPECT_EQ(*model_hash(*file), *model_hash(*one));
    EXPECT_GT(file->identity().bytes, fs::file_size(path(1)));
    file->release_pages();
    EXPECT_EQ(file->find_tensor("a")->data[0], std::byte{'a'});
  }
}

TEST_F(GgufPartsTest, TheIdentityIsThatOfEveryPart) {
  write_model();
  const FileIdentity before = ModelFile::open(path(1))->identity();
  EXPECT_EQ(ModelFile::open(path(3))->identity(), before);
  fs::last_write_time(path(2), fs::last_write_time(path(2)) + std::chrono::seconds(5));
  EXPECT_NE(ModelFile::open(path(1))->identity(), before);
}

TEST_F(GgufPartsTest, NamesTheMissingPart) {
  write_model();
  fs::remove(path(2));
  EXPECT_EQ(error_of(path(3)), "not_found: " + path(2) + ": no such file; " + path(3) +
                                   " is a part of the same split model");
}

TEST_F(GgufPartsTest, RefusesAPartUnderAnotherName) {
  write_model();
  const std::string renamed = (folder_ / "renamed.gguf").string();
  fs::copy_file(path(2), renamed);
  EXPECT_EQ(error_of(renamed), "invalid_argument: " + renamed +
                                   ": is part 2 of 3 of a split model, so its name must end in "
                                   "-00002-of-00003.gguf");
  fs::copy_file(path(1), path(3), fs::copy_options::overwrite_existing);
  EXPECT_EQ(error_of(path(2)),
            "invalid_argument: " + path(3) + ": is part 1 of 3 by its metadata, not part 3 of 3");
}

TEST_F(GgufPartsTest, RefusesPartsOfTwoModels) {
  write_model();
  GgufBuilder other;
  add_tensor(add_split(other, 1, 3, 4), "m", 'm');
  write(path(2), other);
  EXPECT_THAT(error_of(path(1)), HasSubstr("'split.tensors.count' is not what"));
  GgufBuilder deeper;
  add_split(deeper, 1, 3, 3).add_u32("llama.block_count", 4);
  add_tensor(deeper, "m", 'm');
  write(path(2), deeper);
  EXPECT_THAT(error_of(path(1)),
              HasSubstr("metadata key 'llama.block_count' is not what " + path(1) + " says"));
  GgufBuilder same;
  add_split(same, 1, 3, 3).add_u32("llama.block_count", 3);
  add_tensor(same, "z", 'm');
  write(path(2), same);
  EXPECT_THAT(error_of(path(1)), HasSubstr("the tensor 'z' is in two parts"));
}

TEST_F(GgufPartsTest, RefusesSplitSectionsThatCannotBe) {
  const auto error = [&](uint64_t number, uint64_t count) {
    GgufBuilder builder = with_metadata();
    builder.add_scalar<uint64_t>("split.no", 10, number);
    builder.add_scalar<uint64_t>("split.count", 10, count);
    write(path(1), builder);
    return error_of(path(1));
  };
  EXPECT_THAT(error(0, 1ull << 60), HasSubstr("at most 4096 parts are read"));
  EXPECT_THAT(error(3, 3), HasSubstr("'split.no' is 3; it must be below 'split.count', 3"));
  EXPECT_EQ(error(0, 1), "");
  GgufBuilder text = with_metadata();
  text.add_string("split.count", "3");
  write(path(1), text);
  EXPECT_THAT(error_of(path(1)), HasSubstr("'split.count' is string, not a non-negative integer"));
  GgufBuilder lonely = with_metadata();
  add_tensor(add_split(lonely, 0, 1, 3), "z", 'z');
  EXPECT_TRUE(parse_text(lonely.build()).ok());
}

TEST_F(GgufPartsTest, CountsTheTensorsOfAllParts) {
  write_model();
  GgufBuilder third;
  add_split(third, 2, 3, 3);
  write(path(3), third);
  EXPECT_THAT(error_of(path(1)),
              HasSubstr("the parts have 2 tensors together, but 'split.tensors.count' is 3"));
}

}  // namespace
}  // namespace baton::model_file
