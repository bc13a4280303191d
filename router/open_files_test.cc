#include "router/open_files.h"

#include <gtest/gtest.h>

namespace baton::router {
namespace {

TEST(OpenFilesTest, ALimitThatWillDoStays) {
  const OpenFiles plan = plan_open_files(1'000'000, 1'000'000, 10'000);
  EXPECT_EQ(plan.limit, 1'000'000u);
  EXPECT_EQ(plan.connections, 10'000u);
}

TEST(OpenFilesTest, IsRaisedAsFarAsNeeded) {
  const OpenFiles plan = plan_open_files(1024, 1'000'000, 10'000);
  EXPECT_EQ(plan.limit, 11'379u);
  EXPECT_EQ(plan.connections, 10'000u);
}

TEST(OpenFilesTest, ConnectionsAreAsManyAsFit) {
  const OpenFiles plan = plan_open_files(256, 1024, 10'000);
  EXPECT_EQ(plan.limit, 1024u);
  EXPECT_EQ(plan.connections, 796u);
  EXPECT_EQ(plan_open_files(20, 20, 10'000).connections, 8u);
  EXPECT_EQ(plan_open_files(0, 0, 10'000).connections, 1u);
}

}  // namespace
}  // namespace baton::router
