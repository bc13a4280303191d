#include "common/wire/cluster_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace baton::wire {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kKey = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
constexpr const char* kOther = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDI=";

class ClusterKeyTest : public testing::Test {
 protected:
  ClusterKeyTest() {
    path_ = testing::TempDir() + "baton_cluster_key_test." + std::to_string(getpid());
  }
  ~ClusterKeyTest() override { std::remove(path_.c_str()); }
  std::string refusal(const std::string& text, mode_t mode) {
    std::remove(path_.c_str());
    std::ofstream(path_) << text;
    EXPECT_EQ(chmod(path_.c_str(), mode), 0);
    const Result<ClusterKey> key = ClusterKey::read(path_);
    return key.ok() ? "" : key.status().message();
  }
  std::string path_;
};

TEST_F(ClusterKeyTest, ReadsWhatTheDocumentedCommandPrints) {
  EXPECT_EQ(refusal(std::string(kKey) + "\n", 0600), "");
  EXPECT_EQ(refusal(std::string("  ") + kKey + "\r\n\n", 0400), "");
}

TEST_F(ClusterKeyTest, DerivesDifferentPairsFromEachSecret) {
  const ClusterKey key = ClusterKey::parse(kKey).value();
  const ClusterKey same = ClusterKey::parse(kKey).value();
  const ClusterKey other = ClusterKey::parse(kOther).value();
  EXPECT_EQ(key.listener().public_key, same.listener().public_key);
  EXPECT_EQ(key.member().secret_key, same.member().secret_key);
  EXPECT_NE(key.listener().public_key, key.member().public_key);
  EXPECT_NE(key.listener().secret_key, key.member().secret_key);
  EXPECT_NE(key.listener().public_key, other.listener().public_key);
  EXPECT_NE(key.member().public_key, other.member().public_key);
}

TEST_F(ClusterKeyTest, RefusesWhatIsNoKeyWithoutShowingIt) {
  for (const char* text : {"", "\n", "password", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MA==",
                           "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDEy",
                           "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE= twice"}) {
    const std::string message = refusal(text, 0600);
    EXPECT_THAT(message, HasSubstr("cluster.key_file: '" + path_ +
                                   "' holds no key: 32 random "
                                   "bytes in base64 (44 characters) are expected; make one with: "
                                   "(umask 077; head -c 32 /dev/urandom | base64 > " +
                                   path_ + ")"));
    EXPECT_THAT(message, Not(HasSubstr("MDEy")));
  }
  EXPECT_NE(refusal(std::string(5000, 'A'), 0600), "");
}

TEST_F(ClusterKeyTest, RefusesAFileThatOthersCanRead) {
  for (const mode_t mode : {0644, 0604, 0602, 0660}) {
    EXPECT_THAT(refusal(kKey, mode),
                HasSubstr("can be read by others than its owner; chmod 600 it"))
        << std::oct << mode;
  }
}

TEST_F(ClusterKeyTest, OnlyAFileOfRootMayBeReadByItsGroup) {
  ASSERT_EQ(refusal(kKey, 0600), "");
  struct stat info{};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(refusal(kKey, 0440).empty(), info.st_uid == 0);
}

TEST_F(ClusterKeyTest, NamesAFileThatIsNotThere) {
  EXPECT_THAT(ClusterKey::read("/nowhere/key").status().message(),
              HasSubstr("cluster.key_file: '/nowhere/key' cannot be read: No such file"));
  EXPECT_THAT(ClusterKey::read(testing::TempDir()).status().message(), HasSubstr("is not a file"));
}

TEST_F(ClusterKeyTest, AnEmptyPathIsNoKey) {
  const Result<std::optional<ClusterKey>> none = read_cluster_key("");
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
  EXPECT_FALSE(read_cluster_key("/nowhere/key").ok());
}

}  // namespace
}  // namespace baton::wire
