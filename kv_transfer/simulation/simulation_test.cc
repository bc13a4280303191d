// A slice of the simulated cluster's schedules. More: `kv_simulation FIRST COUNT`; one of them in
// full: `kv_simulation --trace SEED`.

#include <gtest/gtest.h>

#include "kv_transfer/simulation/cluster.h"

namespace baton::kv_transfer::simulation {
namespace {

TEST(SimulationTest, NoScheduleBreaksAPromise) {
  ScheduleResult sum;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const ScheduleResult result = run_schedule(seed);
    ASSERT_EQ(result.finding, "") << "seed " << seed;
    sum.requests += result.requests;
    sum.completed += result.completed;
    sum.deaths += result.deaths;
    sum.stops += result.stops;
  }
  // The dice of these seeds reach what they are there for.
  EXPECT_GT(sum.requests, 5'000);
  EXPECT_GT(sum.completed, sum.requests / 2);
  EXPECT_GT(sum.deaths, 100);
  EXPECT_GT(sum.stops, 100);
}

TEST(SimulationTest, ASeedIsTheSameScheduleAgain) {
  std::string first, second;
  run_schedule(77, [&](const std::string& line) { first += line + "\n"; });
  run_schedule(77, [&](const std::string& line) { second += line + "\n"; });
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(first, second);
}

}  // namespace
}  // namespace baton::kv_transfer::simulation
