#include "common/model_file/packed_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace baton::model_file {
namespace {

namespace fs = std::filesystem;

constexpr U128 kModelHash = {0x0123456789abcdef, 0xfedcba9876543210};

class PackedFileTest : public ::testing::Test {
 protected:
  PackedFileTest()
      : folder_(fs::path(::testing::TempDir()) / ("packed_file_test." + std::to_string(getpid()))),
        path_((folder_ / "m.gguf.x.packed").string()),
        content_((size_t{4} << 20) + 12'345) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (size_t i = 0; i < content_.size(); ++i) {
      content_[i] = static_cast<std::byte>((i * 2654435761u) >> 13);
    }
    key_ = {.layout = 77, .bytes = content_.size()};
  }
  ~PackedFileTest() override { fs::remove_all(folder_); }

  Status write() {
    BATON_ASSIGN_OR_RETURN(PackedFileWriter writer, PackedFileWriter::create(path_, key_));
    const std::span<const std::byte> content(content_);
    BATON_RETURN_IF_ERROR(writer.append(content.first(1'000'001)));
    BATON_RETURN_IF_ERROR(writer.append(content.subspan(1'000'001)));
    return writer.finish(kModelHash, serial_for);
  }
  Result<PackedFile> open() const { return PackedFile::open(path_, key_, geteuid(), serial_for); }
  void expect_refused(const std::string& why) const {
    const Result<PackedFile> file = open();
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(file.status().message().find(why), std::string::npos) << file.status().message();
  }
  void flip(size_t at) const {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 1));
  }
  size_t file_bytes() const { return PackedFile::kContentAt + content_.size(); }
  std::string part() const { return path_ + ".part"; }

  fs::path folder_;
  std::string path_;
  std::vector<std::byte> content_;
  PackedKey key_;
};

TEST_F(PackedFileTest, GivesBackWhatWasWritten) {
  ASSERT_TRUE(write().ok());
  const Result<PackedFile> file = open();
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  ASSERT_EQ(file->content().size(), content_.size());
  EXPECT_EQ(std::memcmp(file->content().data(), content_.data(), content_.size()), 0);
  EXPECT_EQ(file->model_hash(), kModelHash);
  EXPECT_FALSE(file->model());
  const auto start = reinterpret_cast<uintptr_t>(file->content().data()) - PackedFile::kContentAt;
  EXPECT_EQ(start % (2u << 20), 0u);
  EXPECT_FALSE(fs::exists(part()));
}

TEST_F(PackedFileTest, SaysWhenThereIsNone) {
  EXPECT_EQ(open().status().code(), StatusCode::kNotFound);
}

TEST_F(PackedFileTest, RefusesDamageInAnyByteOfTheHead) {
  ASSERT_TRUE(write().ok());
  for (size_t at = 0; at < 64; ++at) {
    flip(at);
    expect_refused("its head is damaged");
    flip(at);
  }
  EXPECT_TRUE(open().ok());
}

TEST_F(PackedFileTest, RefusesDamageInTheContent) {
  ASSERT_TRUE(write().ok());
  for (const size_t at : {size_t{0}, content_.size() / 2, content_.size() - 1}) {
    flip(PackedFile::kContentAt + at);
    expect_refused("its content is damaged");
    flip(PackedFile::kContentAt + at);
  }
  EXPECT_TRUE(open().ok());
}

TEST_F(PackedFileTest, RefusesAnotherModelWithoutReadingTheContent) {
  ASSERT_TRUE(write().ok());
  int loops = 0;
  const ParallelFor counting = [&](int n, const std::function<void(int)>& body) {
    ++loops;
    serial_for(n, body);
  };
  const Result<PackedFile> file = PackedFile::open(path_, key_, geteuid(), counting, U128{1, 2});
  EXPECT_EQ(file.status().message(), path_ + ": it was made from another model");
  EXPECT_EQ(loops, 0);
  EXPECT_TRUE(PackedFile::open(path_, key_, geteuid(), counting, kModelHash).ok());
  EXPECT_EQ(loops, 1);
}

TEST_F(PackedFileTest, RefusesOtherLengths) {
  ASSERT_TRUE(write().ok());
  fs::resize_file(path_, file_bytes() + 1);
  expect_refused("it is not complete");
  for (const size_t length : {file_bytes() - 1, PackedFile::kContentAt + 1, PackedFile::kContentAt,
                              PackedFile::kContentAt - 1, size_t{64}, size_t{1}}) {
    fs::resize_file(path_, length);
    expect_refused("it is not complete");
  }
  fs::resize_file(path_, 0);
  expect_refused("is empty");
}

TEST_F(PackedFileTest, RefusesAnotherLayoutAndSize) {
  ASSERT_TRUE(write().ok());
  key_.layout = 78;
  expect_refused("another version or for another layout");
  key_ = {.layout = 77, .bytes = content_.size() - 1};
  expect_refused("it is not complete");
}

TEST_F(PackedFileTest, RefusesWhatIsNoFile) {
  fs::create_directory(path_);
  expect_refused("is a directory");
}

TEST_F(PackedFileTest, RefusesTheFileOfAnotherUser) {
  ASSERT_TRUE(write().ok());
  if (geteuid() == 0) {  // nobody else can give a file away
    ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
    expect_refused("it belongs to another user");
    EXPECT_TRUE(PackedFile::open(path_, key_, 12345, serial_for).ok());
  }
}

TEST_F(PackedFileTest, RemembersTheModelFileUnlessTheNoteIsDamaged) {
  ASSERT_TRUE(write().ok());
  const FileIdentity model = {.bytes = 1, .modified_ns = 2, .changed_ns = 3, .inode = 4};
  PackedFile::note_model(path_, model);
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(open()->model(), model);
  for (size_t at = 512; at < 552; ++at) {
    flip(at);
    ASSERT_TRUE(open().ok());
    EXPECT_FALSE(open()->model());
    flip(at);
  }
  PackedFile::note_model((folder_ / "none").string(), model);  // no crash, no file
  EXPECT_FALSE(fs::exists(folder_ / "none"));
}

TEST_F(PackedFileTest, LeavesNothingWhenItIsNotFinished) {
  {
    Result<PackedFileWriter> writer = PackedFileWriter::create(path_, key_);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->append(content_).ok());
    EXPECT_TRUE(fs::exists(part()));
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(PackedFileTest, TakesOverWhatADeadWriterLeft) {
  std::ofstream(part()) << std::string(10'000'000, 'x');
  ASSERT_TRUE(write().ok());
  EXPECT_TRUE(open().ok());
}

TEST_F(PackedFileTest, HasOneWriterAtATime) {
  {
    Result<PackedFileWriter> first = PackedFileWriter::create(path_, key_);
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(PackedFileWriter::create(path_, key_).status().code(), StatusCode::kUnavailable);
    EXPECT_TRUE(fs::exists(part()));
  }
  EXPECT_TRUE(write().ok());
}

TEST_F(PackedFileTest, ReplacesTheFileUnderAReader) {
  ASSERT_TRUE(write().ok());
  const Result<PackedFile> reader = open();
  ASSERT_TRUE(reader.ok());
  const std::vector<std::byte> old = content_;
  content_.assign(content_.size(), std::byte{1});
  ASSERT_TRUE(write().ok());
  EXPECT_EQ(std::memcmp(reader->content().data(), old.data(), old.size()), 0);
  EXPECT_EQ(open()->content()[5], std::byte{1});
}

TEST_F(PackedFileTest, MakesTheFolderAndNamesOneThatCannotBeWritten) {
  path_ = (folder_ / "a" / "b" / "m.packed").string();
  EXPECT_TRUE(write().ok());
  path_ += "/below_a_file.packed";
  const Status status = write();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("cannot be written: Not a directory"), std::string::npos)
      << status.message();
}

TEST_F(PackedFileTest, NamesAFullDisk) {
  key_.bytes = uint64_t{1} << 60;
  const Status status = write();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("MiB are free"), std::string::npos) << status.message();
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(PackedFileTest, NamesALimitOfFileSizes) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 1'000'000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const Status status = write();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(PackedFileTest, NamesFilesOfSeveralFoldersApart) {
  EXPECT_EQ(packed_file_path("models", "models/a.gguf", "decode-t1s1"),
            "models/a.gguf.decode-t1s1.packed");
  EXPECT_EQ(packed_file_path(".", "a.gguf", "x"), "./a.gguf.x.packed");
  const std::string one = packed_file_path("/c", "/models/one/a.gguf", "x");
  const std::string two = packed_file_path("/c", "/models/two/a.gguf", "x");
  EXPECT_NE(one, two);
  EXPECT_EQ(one.size(), std::string("/c/a.gguf.0123456789abcdef.x.packed").size());
  EXPECT_EQ(one, packed_file_path("/c", "/models/../models/one/a.gguf", "x"));
}

TEST_F(PackedFileTest, LayoutsDependOnEveryNumberAndTheirOrder) {
  const std::vector<uint64_t> a = {1, 2, 3};
  const std::vector<uint64_t> b = {1, 3, 2};
  EXPECT_NE(packed_layout(a), packed_layout(b));
  EXPECT_NE(packed_layout(a), packed_layout(std::span(a).first(2)));
}

}  // namespace
}  // namespace baton::model_file
