#include "deploy/baton/serve_bench/rate_search.h"

#include <gtest/gtest.h>

namespace baton::serve_bench {
namespace {

// A server that carries exactly `capacity`.
Result<SearchResult> search(double capacity, double first = 1) {
  return search_rate({.first = first}, [capacity](double load) -> Result<ProbeResult> {
    const double attainment = load <= capacity ? 1.0 : 0.5;
    return ProbeResult{load, attainment, attainment >= kWantedAttainment};
  });
}

TEST(RateSearchTest, FindsTheCapacityFromBelowAndFromAbove) {
  for (const double capacity : {0.3, 1.0, 3.5, 11.2, 100.0}) {
    const auto result = search(capacity);
    ASSERT_TRUE(result.ok());
    EXPECT_LE(result->best, capacity);
    EXPECT_GE(result->best, capacity / 1.05);
    EXPECT_TRUE(result->bounded);
    EXPECT_LE(result->probes.size(), 14u);
  }
  EXPECT_GE(search(3.5, 16)->best, 3.5 / 1.05);
}

TEST(RateSearchTest, SaysWhenNothingPasses) {
  const auto result = search(0.0001);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->best, 0);
  EXPECT_EQ(result->probes.size(), 7u);
}

TEST(RateSearchTest, SaysWhenNothingFails) {
  const auto result = search(1e9);
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->bounded);
  EXPECT_EQ(result->best, 4096);
}

TEST(RateSearchTest, EndsWithTheErrorOfAProbe) {
  int probes = 0;
  const auto result = search_rate({}, [&](double load) -> Result<ProbeResult> {
    if (++probes == 3) {
      return cancelled("stopped");
    }
    return ProbeResult{load, 1, true};
  });
  EXPECT_EQ(result.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(probes, 3);
}

}  // namespace
}  // namespace baton::serve_bench
