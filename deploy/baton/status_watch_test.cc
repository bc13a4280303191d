#include "deploy/baton/status_watch.h"

#include <gmock/gmock.h>

#include <sstream>

namespace baton::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kNone = "{\"workers\":[]}";
constexpr const char* kOne =
    R"({"workers":[{"name":"d0","role":"decode","state":"ready","tensor_parallel":1}]})";

// A router that gives the answers one after the other, and an operator who stops after the last.
class WatchTest : public ::testing::Test {
 protected:
  int watch(std::vector<Result<ClusterStatus>> answers, bool json = false) {
    size_t asked = 0;
    const WatchParts parts = {.ask = [&] { return answers[asked++]; },
                              .wait =
                                  [&](Duration interval) {
                                    EXPECT_EQ(interval, 2s);
                                    return asked == answers.size();
                                  },
                              .screen = [&] { return screen_; },
                              .out = out_,
                              .err = err_};
    return watch_status(2s, json, parts);
  }

  std::optional<ScreenSize> screen_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(WatchTest, InAPipeTablesFollowEachOther) {
  EXPECT_EQ(watch({parse_status(kNone), parse_status(kNone)}), 0);
  EXPECT_EQ(out_.str(), "no workers\n\nno workers\n");
  EXPECT_EQ(err_.str(), "");
}

TEST_F(WatchTest, JsonIsOneLineEachTime) {
  screen_ = ScreenSize{};
  EXPECT_EQ(watch({parse_status(kNone), parse_status(kOne)}, true), 0);
  EXPECT_EQ(out_.str(), std::string(kNone) + "\n" + kOne + "\n");
}

TEST_F(WatchTest, OnATerminalItIsRedrawnInPlaceAndTheLastStays) {
  screen_ = ScreenSize{24, 80};
  EXPECT_EQ(watch({parse_status(kOne), parse_status(kNone)}), 0);
  EXPECT_THAT(out_.str(), StartsWith("\x1b[?1049h\x1b[?25l\x1b[2J\x1b[HWORKER  ROLE"));
  EXPECT_THAT(out_.str(), HasSubstr("\x1b[Hno workers\x1b[K\x1b[J"));
  EXPECT_THAT(out_.str(), EndsWith("\x1b[?25h\x1b[?1049lno workers\n"));
}

TEST_F(WatchTest, ASmallScreenIsNotOverrun) {
  screen_ = ScreenSize{2, 80};
  EXPECT_EQ(watch({parse_status(R"({"workers":[{"name":"a"},{"name":"b"}]})")}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("\x1b[K\r\n...\x1b[K\x1b[J"));
}

TEST_F(WatchTest, ARouterThatGoesAwayIsAskedAgain) {
  EXPECT_EQ(watch({parse_status(kNone), unavailable("gone"), parse_status(kNone)}), 0);
  EXPECT_EQ(out_.str(), "no workers\n\nno workers\n");
  EXPECT_EQ(err_.str(), "baton: gone\n");
  screen_ = ScreenSize{};
  EXPECT_EQ(watch({parse_status(kNone), unavailable("gone"), parse_status(kOne)}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("no answer now: gone\x1b[K"));
}

TEST_F(WatchTest, ARouterThatIsNotThereEndsIt) {
  screen_ = ScreenSize{};
  EXPECT_EQ(watch({unavailable("connection\nrefused")}), 1);
  EXPECT_EQ(err_.str(), "baton: connection refused\n");
  EXPECT_EQ(out_.str(), "");
}

TEST_F(WatchTest, CtrlCWhileAskingEndsIt) {
  screen_ = ScreenSize{};
  EXPECT_EQ(watch({parse_status(kNone), cancelled("interrupted")}), 0);
  EXPECT_THAT(out_.str(), EndsWith("\x1b[?1049lno workers\n"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("interrupted")));
  EXPECT_EQ(err_.str(), "");
}

}  // namespace
}  // namespace baton::cli
