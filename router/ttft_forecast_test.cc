#include "router/ttft_forecast.h"

#include <gtest/gtest.h>

#include "common/base/random.h"

namespace baton::router {
namespace {

TEST(TtftForecastTest, FindsTheNinthOfTenCases) {
  SeededRandom random(1);
  TtftForecast forecast;
  // Spread evenly between one and three times what was predicted: nine of ten are below 2.8.
  for (int i = 0; i < 5000; ++i) {
    const double spread = static_cast<double>(random.next() % 1000) / 1000;
    forecast.observe(100, 100 * (1 + 2 * spread), 0);
  }
  EXPECT_NEAR(forecast.at_most_ms(100), 280, 40);
}

TEST(TtftForecastTest, ComesBackAfterATrouble) {
  TtftForecast forecast;
  for (int i = 0; i < 1000; ++i) {
    forecast.observe(100, 1e6, 0);
  }
  EXPECT_EQ(forecast.at_most_ms(100), 800) << "bounded";
  for (int i = 0; i < 250; ++i) {
    forecast.observe(100, 100, 0);
  }
  EXPECT_LT(forecast.at_most_ms(100), 120);
  for (int i = 0; i < 1000; ++i) {
    forecast.observe(100, 1, 0);
  }
  EXPECT_EQ(forecast.at_most_ms(100), 10) << "bounded";
}

TEST(TtftForecastTest, PassesOverShortPredictions) {
  TtftForecast forecast;
  const double before = forecast.at_most_ms(100);
  forecast.observe(0, 50, 0);
  forecast.observe(20, 500, 25);
  EXPECT_EQ(forecast.at_most_ms(100), before);
}

}  // namespace
}  // namespace baton::router
