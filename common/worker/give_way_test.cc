#include "common/worker/give_way.h"

#include <gtest/gtest.h>

namespace baton::worker {
namespace {

TEST(GiveWayTest, OnlyToPromptsThatWaitLong) {
  EXPECT_EQ(pause_for_prompts(6ms, 0ms), 0ms);
  EXPECT_EQ(pause_for_prompts(6ms, 199ms), 0ms);
  EXPECT_EQ(pause_for_prompts(6ms, 200ms), 18ms);
}

TEST(GiveWayTest, TokensComeAtLeastTwentyTimesASecondWhereStepsAllowIt) {
  EXPECT_EQ(pause_for_prompts(20ms, 1s), 30ms);
  EXPECT_EQ(pause_for_prompts(46ms, 1s), 4ms);
  EXPECT_EQ(pause_for_prompts(48ms, 1s), 0ms);
  EXPECT_EQ(pause_for_prompts(500ms, 1s), 0ms);
}

TEST(GiveWayTest, NotForLessThanABorrowerNeedsToCome) {
  EXPECT_EQ(pause_for_prompts(900us, 1s), 0ms);
  EXPECT_EQ(pause_for_prompts(1ms, 1s), 3ms);
}

}  // namespace
}  // namespace baton::worker
