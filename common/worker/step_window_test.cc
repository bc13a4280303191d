#include "common/worker/step_window.h"

#include <gtest/gtest.h>

namespace baton::worker {
namespace {

TimePoint at(double seconds) { return TimePoint(from_seconds(seconds)); }

StepRecord step(double ended, double seconds, int prompt_tokens, int decode_tokens,
                double roofline = 0) {
  return {at(ended),     seconds,       roofline,
          prompt_tokens, decode_tokens, decode_tokens + (prompt_tokens > 0 ? 1 : 0)};
}

TEST(StepWindowTest, SaysNothingOfWhatDidNotRun) {
  StepWindow window;
  const wire::RecentLoad load = window.summary(at(1), {});
  EXPECT_FALSE(load.prefill_tokens_per_s || load.decode_tokens_per_s || load.batch_mean ||
               load.preemptions || load.prefix_hit_ratio || load.step_ms_p50 ||
               load.prefill_roofline_share || load.decode_roofline_share);
}

TEST(StepWindowTest, SharesTheTimeAmongKindsOfSteps) {
  StepWindow window;
  (void)window.summary(at(0), {.cache_queries = 100, .cache_hits = 50, .preemptions = 7});
  window.add(step(1, 0.1, 100, 0, 0.05));  // a prompt
  window.add(step(2, 0.02, 0, 4, 0.015));  // streams
  window.add(step(3, 0.08, 50, 4, 0.04));  // both
  const wire::RecentLoad load =
      window.summary(at(4), {.cache_queries = 300, .cache_hits = 100, .preemptions = 9});
  EXPECT_DOUBLE_EQ(load.prefill_tokens_per_s.value(), 150 / 0.18);
  EXPECT_DOUBLE_EQ(load.decode_tokens_per_s.value(), 8 / 0.1);
  EXPECT_DOUBLE_EQ(load.prefill_roofline_share.value(), 0.09 / 0.18);
  EXPECT_DOUBLE_EQ(load.decode_roofline_share.value(), 0.75);
  EXPECT_DOUBLE_EQ(load.batch_mean.value(), (1 + 4 + 5) / 3.0);
  EXPECT_DOUBLE_EQ(load.step_ms_p50.value(), 80);
  EXPECT_DOUBLE_EQ(load.preemptions.value(), 2);
  EXPECT_DOUBLE_EQ(load.prefix_hit_ratio.value(), 0.25);
}

TEST(StepWindowTest, KnowsNoShareWithoutPeaks) {
  StepWindow window;
  window.add(step(1, 0.1, 100, 0));
  const wire::RecentLoad load = window.summary(at(2), {});
  EXPECT_TRUE(load.prefill_tokens_per_s);
  EXPECT_FALSE(load.prefill_roofline_share);
  EXPECT_FALSE(load.prefix_hit_ratio);
}

TEST(StepWindowTest, ForgetsWhatIsOld) {
  StepWindow window;
  window.add(step(1, 0.1, 100, 0));
  for (int second = 1; second <= 60; ++second) {
    (void)window.summary(at(second), {.preemptions = double(second)});
  }
  EXPECT_FALSE(window.summary(at(61), {}).prefill_tokens_per_s);
  window.add(step(61, 0.1, 100, 0));
  // Of the last half minute, whatever was counted before.
  EXPECT_NEAR(window.summary(at(62), {.preemptions = 62}).preemptions.value(), 31, 1);
}

TEST(StepWindowTest, IsBounded) {
  StepWindow window;
  for (size_t i = 0; i < 2 * StepWindow::kMostSteps; ++i) {
    window.add(step(1, i < StepWindow::kMostSteps ? 1.0 : 0.5, 0, 1));
  }
  EXPECT_DOUBLE_EQ(window.summary(at(2), {}).decode_tokens_per_s.value(), 2);
}

}  // namespace
}  // namespace baton::worker
