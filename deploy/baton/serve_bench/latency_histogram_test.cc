#include "deploy/baton/serve_bench/latency_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/base/random.h"

namespace baton::serve_bench {
namespace {

TEST(LatencyHistogramTest, PercentilesAreWithinHalfAPercent) {
  SeededRandom random(5);
  LatencyHistogram histogram;
  std::vector<double> values;
  for (int i = 0; i < 50'000; ++i) {
    // 5 us to 50 s, even on a logarithmic scale.
    const double ns = 5e3 * std::pow(1e7, static_cast<double>(random.next() >> 11) * 0x1p-53);
    values.push_back(std::floor(ns));
    histogram.add(Duration(static_cast<int64_t>(ns)));
  }
  std::ranges::sort(values);
  for (const double p : {0.01, 0.5, 0.9, 0.99, 0.999}) {
    const double exact = values[static_cast<size_t>(std::ceil(p * 50'000)) - 1];
    EXPECT_NEAR(static_cast<double>(histogram.percentile(p).count()), exact, exact * 0.0051) << p;
  }
  EXPECT_EQ(static_cast<double>(histogram.max().count()), values.back()) << "exact";
  EXPECT_EQ(histogram.count(), 50'000u);
}

TEST(LatencyHistogramTest, KeepsToItsRange) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.percentile(0.5), Duration::zero());
  EXPECT_EQ(histogram.mean_ms(), 0);
  histogram.add(Duration(-5));
  histogram.add(Duration::zero());
  EXPECT_LE(histogram.percentile(0.5), 2us);
  histogram.add(std::chrono::hours(5));
  EXPECT_EQ(histogram.max(), std::chrono::hours(5));
  EXPECT_GE(histogram.percentile(1), 990s);
  LatencyHistogram one;
  one.add(10ms);
  EXPECT_LE(one.percentile(0.99), 10ms) << "never above the maximum";
  EXPECT_GE(one.percentile(0.99), 9950us);
  EXPECT_DOUBLE_EQ(one.mean_ms(), 10);
}

}  // namespace
}  // namespace baton::serve_bench
