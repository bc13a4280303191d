#include "common/base/changed_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace baton {
namespace {

class ChangedFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "baton-changed-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    write("a", "one");
    write("b", "one");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
  }
  bool changed_later(ChangedFiles& files) {
    clock_.advance(std::chrono::seconds(1));
    return files.changed();
  }

  std::filesystem::path folder_;
  FakeClock clock_;
};

TEST_F(ChangedFilesTest, TellsEachChangeOnce) {
  ChangedFiles files({path("a"), path("b")}, clock_);
  EXPECT_FALSE(changed_later(files));
  write("b", "longer");
  EXPECT_TRUE(changed_later(files));
  EXPECT_FALSE(changed_later(files));
}

TEST_F(ChangedFilesTest, LooksAtMostOnceASecond) {
  ChangedFiles files({path("a")}, clock_);
  write("a", "longer");
  EXPECT_FALSE(files.changed());
  clock_.advance(std::chrono::milliseconds(999));
  EXPECT_FALSE(files.changed());
  clock_.advance(std::chrono::milliseconds(1));
  EXPECT_TRUE(files.changed());
}

TEST_F(ChangedFilesTest, SeesAnotherFileOfTheSameSizeInItsPlace) {
  ChangedFiles files({path("a")}, clock_);
  write("new", "two");
  std::filesystem::rename(path("new"), path("a"));
  EXPECT_TRUE(changed_later(files));
}

TEST_F(ChangedFilesTest, SeesFilesGoAndCome) {
  ChangedFiles files({path("a")}, clock_);
  std::filesystem::remove(path("a"));
  EXPECT_TRUE(changed_later(files));
  EXPECT_FALSE(changed_later(files));
  write("a", "one");
  EXPECT_TRUE(changed_later(files));
}

}  // namespace
}  // namespace baton
