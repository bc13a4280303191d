#include "common/model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace baton::model {
namespace {

TEST(RopeTest, WithoutScalingIsAPowerOfTheBase) {
  const auto f = rope_frequencies({.base = 10000.0F, .dims = 8});
  ASSERT_EQ(f.size(), 4u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(f[i], std::pow(10000.0, -i / 4.0));
  }
}

TEST(RopeTest, DivisorsDivideBeforeTheFactor) {
  const auto plain = rope_frequencies({.dims = 4});
  const auto f = rope_frequencies(
      {.dims = 4, .scaling = RopeScaling::kLinear, .factor = 4.0F, .divisors = {1.0F, 2.5F}});
  EXPECT_DOUBLE_EQ(f[0], plain[0] / 4);
  EXPECT_DOUBLE_EQ(f[1], plain[1] / 10);
}

TEST(RopeTest, YarnKeepsFastPairsAndDividesSlowOnes) {
  const RopeDescription rope = {.base = 10000.0F,
                                .dims = 64,
                                .scaling = RopeScaling::kYarn,
                                .factor = 8.0F,
                                .original_context = 2048};
  const auto plain = rope_frequencies({.dims = 64});
  const auto f = rope_frequencies(rope);
  for (int i = 0; i < 32; ++i) {
    const double turns = 2048 * plain[i] / (2 * std::numbers::pi);
    EXPECT_LE(f[i], plain[i]);
    EXPECT_GE(f[i], plain[i] / 8 * (1 - 1e-12));
    if (turns > 45) {
      EXPECT_DOUBLE_EQ(f[i], plain[i]) << i;
    } else if (turns < 0.7) {
      EXPECT_DOUBLE_EQ(f[i], plain[i] / 8) << i;
    }
  }
  EXPECT_FLOAT_EQ(yarn_magnitude(8.0F), 1.2079441F);
  EXPECT_EQ(yarn_magnitude(0.5F), 1.0F);
}

TEST(RopeTest, Llama3FollowsItsWavelengths) {
  const RopeDescription rope = {.base = 500000.0F,
                                .dims = 64,
                                .scaling = RopeScaling::kLlama3,
                                .factor = 32.0F,
                                .original_context = 8192};
  const auto plain = rope_frequencies({.base = 500000.0F, .dims = 64});
  const auto f = rope_frequencies(rope);
  for (int i = 0; i < 32; ++i) {
    const double wavelength = 2 * std::numbers::pi / plain[i];
    double expected = plain[i];
    if (wavelength > 8192.0 / 1) {
      expected = plain[i] / 32;
    } else if (wavelength > 8192.0 / 4) {
      const double smooth = (8192 / wavelength - 1) / (4 - 1);
      expected = (1 - smooth) * plain[i] / 32 + smooth * plain[i];
    }
    EXPECT_NEAR(f[i], expected, 1e-12 * expected) << i;
  }
}

}  // namespace
}  // namespace baton::model
