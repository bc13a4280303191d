#include "deploy/baton/serve_bench/plan.h"

#include <gtest/gtest.h>

#include <cmath>

namespace baton::serve_bench {
namespace {

std::vector<Duration> offsets(const std::vector<PlannedRequest>& plan) {
  std::vector<Duration> out;
  for (const PlannedRequest& request : plan) {
    out.push_back(request.offset);
  }
  return out;
}

TEST(PlanTest, PoissonGapsHaveTheMeanAndTheDeviationOfTheirRate) {
  const auto plan = plan_poisson({.rate = 4, .requests = 20'000, .input = {100, 0}, .seed = 3});
  ASSERT_EQ(plan.size(), 20'000u);
  double sum = 0;
  double squares = 0;
  Duration before{};
  for (const PlannedRequest& request : plan) {
    ASSERT_GE(request.offset, before);
    const double gap = to_seconds(request.offset - before);
    sum += gap;
    squares += gap * gap;
    before = request.offset;
  }
  const double mean = sum / 20'000;
  const double deviation = std::sqrt(squares / 20'000 - mean * mean);
  EXPECT_NEAR(mean, 0.25, 0.005);
  EXPECT_NEAR(deviation, 0.25, 0.007) << "exponential: the deviation equals the mean";
}

TEST(PlanTest, CountsInAWindowVaryAsAPoissonProcessDoes) {
  double sum = 0;
  double squares = 0;
  constexpr int kSeeds = 400;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto n =
        static_cast<double>(plan_poisson({.rate = 5, .window = 10s, .seed = seed}).size());
    sum += n;
    squares += n * n;
  }
  const double mean = sum / kSeeds;
  EXPECT_NEAR(mean, 50, 1.5);
  EXPECT_NEAR(squares / kSeeds - mean * mean, 50, 12);
}

TEST(PlanTest, TheSameSeedGivesTheSameArrivalsWhateverTheLengths) {
  const PoissonOptions options{.rate = 10, .window = 20s, .input = {300, 0.5}, .seed = 7};
  PoissonOptions longer = options;
  longer.input = {2000, 0};
  PoissonOptions other = options;
  other.seed = 8;
  EXPECT_EQ(offsets(plan_poisson(options)), offsets(plan_poisson(options)));
  EXPECT_EQ(offsets(plan_poisson(options)), offsets(plan_poisson(longer)));
  EXPECT_NE(offsets(plan_poisson(options)), offsets(plan_poisson(other)));
  for (const PlannedRequest& request : plan_poisson(options)) {
    EXPECT_LT(request.offset, 20s);
  }
}

TEST(PlanTest, LengthsStayInTheirSpread) {
  SeededRandom random(1);
  const Lengths lengths{100, 0.25};
  int low = 1000;
  int high = 0;
  for (int i = 0; i < 2000; ++i) {
    const int n = lengths.draw(random);
    low = std::min(low, n);
    high = std::max(high, n);
  }
  EXPECT_EQ(low, 75);
  EXPECT_EQ(high, 125);
  EXPECT_EQ((Lengths{9, 0}).draw(random), 9);
  EXPECT_GE((Lengths{1, 1}).draw(random), 1);
}

TEST(PlanTest, AClosedLoopEndsAfterItsRequests) {
  auto next = closed_loop_source({10, 0}, {5, 0}, 2, 1);
  const auto first = next();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->input_tokens, 10);
  EXPECT_EQ(first->output_tokens, 5);
  EXPECT_TRUE(next().has_value());
  EXPECT_FALSE(next().has_value());
  auto endless = closed_loop_source({10, 0}, {5, 0}, 0, 1);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(endless().has_value());
  }
}

TEST(PlanTest, CutsATraceByTimeCountAndLength) {
  const std::vector<PlannedRequest> trace = {
      {0s, 100, 10, {}}, {2s, 1400, 20, {1, 2, 3}}, {4s, 300, 900, {}}, {6s, 1, 1, {}}};
  const CutTrace fast = cut_trace(trace, {.scale = 2, .window = 3s});
  ASSERT_EQ(fast.requests.size(), 3u) << "6 s are 3 s at twice the speed, and no longer inside";
  EXPECT_EQ(fast.requests[1].offset, 1s);
  EXPECT_EQ(fast.shortened, 0u);
  const CutTrace cut = cut_trace(trace, {.requests = 3, .max_input = 600, .max_output = 100});
  ASSERT_EQ(cut.requests.size(), 3u);
  EXPECT_EQ(cut.requests[1].input_tokens, 600);
  EXPECT_EQ(cut.requests[1].blocks, (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(cut.requests[2].output_tokens, 100);
  EXPECT_EQ(cut.shortened, 2u);
}

}  // namespace
}  // namespace baton::serve_bench
