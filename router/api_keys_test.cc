#include "router/api_keys.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "common/base/clock.h"

namespace baton::router {
namespace {

class ApiKeysTest : public testing::Test {
 protected:
  ApiKeysTest() {
    std::string pattern = testing::TempDir() + "api-keys-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/keys";
  }
  ~ApiKeysTest() override { std::filesystem::remove_all(folder_); }

  // As editors and Kubernetes do it: another file takes the place of the old one.
  void write(const std::string& text) {
    std::ofstream(folder_ + "/new") << text;
    ASSERT_EQ(std::rename((folder_ + "/new").c_str(), path_.c_str()), 0);
  }
  std::unique_ptr<ApiKeys> open() {
    Result<std::unique_ptr<ApiKeys>> keys = ApiKeys::open(path_, clock_);
    EXPECT_TRUE(keys.ok()) << keys.status().to_string();
    return std::move(keys).value();
  }

  FakeClock clock_;
  std::string folder_, path_;
};

TEST_F(ApiKeysTest, WithoutAFileEverybodyMayAsk) {
  const auto keys = ApiKeys::open("", clock_).value();
  EXPECT_TRUE(keys->keyless());
  EXPECT_TRUE(keys->rights("").has_value());
}

TEST_F(ApiKeysTest, TakesEachKeyOfTheFileAndNothingElse) {
  write("# of March\nfirst\r\n\nsecond\n");
  const auto keys = open();
  EXPECT_FALSE(keys->keyless());
  EXPECT_TRUE(keys->rights("first").has_value());
  EXPECT_TRUE(keys->rights("second").has_value());
  for (const char* wrong : {"", "firs", "first ", "firstfirst", "# of March", "third"}) {
    EXPECT_FALSE(keys->rights(wrong).has_value()) << wrong;
  }
}

TEST_F(ApiKeysTest, AKeyMayGiveTheRightToSetAPriority) {
  write("  usual \nurgent  priority\ttwice priority priority\n");
  EXPECT_EQ(ApiKeys::open(path_, clock_).status(),
            invalid_argument("router.api_keys_file: '" + path_ +
                             "' line 2: after the key only 'priority' may stand, not 'twice'"));
  write("  usual \nurgent  priority\t\r\ntwice priority priority\n");
  const auto keys = open();
  EXPECT_FALSE(keys->rights("usual").value().priority);
  EXPECT_TRUE(keys->rights("urgent").value().priority);
  EXPECT_TRUE(keys->rights("twice").value().priority);
  EXPECT_FALSE(keys->rights("urgent  priority\t").has_value());
  EXPECT_TRUE(keys->rights("usual").value().others);
  EXPECT_FALSE(ApiKeys::open("", clock_).value()->rights("urgent").value().priority);
  EXPECT_FALSE(ApiKeys::open("", clock_).value()->rights("urgent").value().others);
  write("alone\n");
  EXPECT_FALSE(ApiKeys::open(path_, clock_).value()->rights("alone").value().others);
}

TEST_F(ApiKeysTest, CannotStartWithoutAKey) {
  EXPECT_EQ(ApiKeys::open(path_, clock_).status(),
            not_found("router.api_keys_file: cannot read '" + path_ + "'"));
  write("# none\n");
  EXPECT_EQ(ApiKeys::open(path_, clock_).status(),
            invalid_argument("router.api_keys_file: '" + path_ + "' has no key"));
}

TEST_F(ApiKeysTest, AChangedFileCountsAfterASecond) {
  write("old\n");
  const auto keys = open();
  write("new\n");
  EXPECT_TRUE(keys->rights("old").has_value());
  clock_.advance(1s);
  EXPECT_TRUE(keys->rights("new").has_value());
  EXPECT_FALSE(keys->rights("old").has_value());
}

TEST_F(ApiKeysTest, ABadFileChangesNothing) {
  write("old\n");
  const auto keys = open();
  write("# empty\n");
  clock_.advance(1s);
  EXPECT_TRUE(keys->rights("old").has_value());
  std::filesystem::remove(path_);
  clock_.advance(1s);
  EXPECT_TRUE(keys->rights("old").has_value());
  EXPECT_FALSE(keys->rights("").has_value());
  write("new\n");
  clock_.advance(1s);
  EXPECT_TRUE(keys->rights("new").has_value());
  EXPECT_FALSE(keys->rights("old").has_value());
}

}  // namespace
}  // namespace baton::router
