#include "common/model_file/mapped_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

namespace baton::model_file {
namespace {

TEST(MappedFileTest, MapsAWholeFileAndUnmapsItOnce) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "mapped_file_test.bin";
  std::ofstream(path, std::ios::binary) << "abc";
  auto first = MappedFile::open(path.string());
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  MappedFile second = std::move(*first);
  EXPECT_TRUE(first->bytes().empty());
  ASSERT_EQ(second.bytes().size(), 3u);
  EXPECT_EQ(second.bytes()[2], std::byte{'c'});
  MappedFile third;
  third = std::move(second);
  EXPECT_EQ(third.bytes()[0], std::byte{'a'});
  std::filesystem::remove(path);
}

TEST(MappedFileTest, SaysWhatAFolderIsAndWhatToGive) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "mapped_file_test_folder";
  std::filesystem::create_directory(folder);
  const auto message = [&folder] { return MappedFile::open(folder).status().message(); };
  const std::string path = folder.string();
  EXPECT_EQ(message(),
            path + ": is a directory without safetensors; give the path of a .gguf file");
  std::ofstream(folder / "b.gguf").close();
  std::ofstream(folder / "a.gguf").close();
  EXPECT_EQ(
      message(),
      path + ": is a directory without safetensors; give the path of a .gguf file, for example " +
          path + "/a.gguf");
  std::filesystem::remove_all(folder);
}

TEST(MappedFileTest, ReleasedPagesComeBackFromTheFile) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "mapped_file_test_release.bin";
  std::ofstream(path, std::ios::binary) << "abc";
  const auto file = MappedFile::open(path.string());
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->bytes()[1], std::byte{'b'});
  file->release_pages();
  EXPECT_EQ(file->bytes()[1], std::byte{'b'});
  MappedFile().release_pages();
  std::filesystem::remove(path);
}

TEST(MappedFileTest, NamesThePathOfAMissingFile) {
  const auto result = MappedFile::open("/nonexistent/x");
  EXPECT_EQ(result.status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(result.status().message().starts_with("/nonexistent/x: "));
}

}  // namespace
}  // namespace baton::model_file
