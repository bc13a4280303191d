#include "common/kernels/math/exp.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace baton::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Distance from the exact value in units of the last place of the exact value.
double ulp_error(float x) {
  const long double exact = std::exp(static_cast<long double>(x));
  int exponent = 0;
  std::frexp(exact, &exponent);
  const long double ulp = std::ldexp(1.0L, exponent - 24);
  return static_cast<double>(std::fabs(static_cast<long double>(exp_canonical(x)) - exact) / ulp);
}

TEST(ExpTest, StaysWithinItsStatedError) {
  // 24 binades on both sides of zero, about every 800th float.
  double worst = 0;
  for (uint32_t sign : {0u, 0x80000000u}) {
    for (uint32_t u = 0x33000000u; u < 0x42B17217u; u += 797) {
      const float x = std::bit_cast<float>(u | sign);
      if (x >= kExpLowest && x <= kExpHighest) {
        worst = std::max(worst, ulp_error(x));
      }
    }
  }
  EXPECT_LT(worst, 0.87);
}

TEST(ExpTest, IsRightAtBothEndsOfItsRange) {
  EXPECT_LT(ulp_error(kExpLowest), 0.87);
  EXPECT_GE(exp_canonical(kExpLowest), std::numeric_limits<float>::min());
  EXPECT_EQ(exp_canonical(std::nextafter(kExpLowest, -kInf)), 0.0f);
  EXPECT_LT(ulp_error(kExpHighest), 0.87);
  EXPECT_LT(exp_canonical(kExpHighest), kInf);
  EXPECT_EQ(exp_canonical(std::nextafter(kExpHighest, kInf)), kInf);
}

TEST(ExpTest, DefinesSpecialValues) {
  EXPECT_EQ(exp_canonical(0.0f), 1.0f);
  EXPECT_EQ(exp_canonical(-0.0f), 1.0f);
  EXPECT_EQ(exp_canonical(1e-30f), 1.0f);
  EXPECT_EQ(exp_canonical(std::numeric_limits<float>::denorm_min()), 1.0f);
  for (float x : {-kInf, -1e30f, -1000.0f, -88.0f}) {
    EXPECT_EQ(std::bit_cast<uint32_t>(exp_canonical(x)), 0u) << x;
  }
  for (float x : {kInf, 1e30f, 1000.0f, 89.0f}) {
    EXPECT_EQ(exp_canonical(x), kInf) << x;
  }
  EXPECT_TRUE(std::isnan(exp_canonical(std::numeric_limits<float>::quiet_NaN())));
}

TEST(ExpTest, NonpositiveGivesTheSameBits) {
  const auto bits_of = [](float x) {
    return std::bit_cast<uint32_t>(exp_nonpositive<ScalarLanes>(x));
  };
  for (uint32_t u = 0x80000000u; u < 0xFF800000u; u += 997) {
    const float x = std::bit_cast<float>(u);
    ASSERT_EQ(bits_of(x), std::bit_cast<uint32_t>(exp_canonical(x))) << x;
  }
  for (float x : {0.0f, kExpLowest, std::nextafter(kExpLowest, -kInf), -88.1f, -kInf}) {
    EXPECT_EQ(bits_of(x), std::bit_cast<uint32_t>(exp_canonical(x))) << x;
  }
  EXPECT_TRUE(std::isnan(exp_nonpositive<ScalarLanes>(std::numeric_limits<float>::quiet_NaN())));
}

TEST(SiluTest, FollowsItsDefinition) {
  for (float g : {-30.0f, -3.5f, -0.1f, 0.0f, 0.25f, 2.0f, 50.0f, 300.0f}) {
    EXPECT_EQ(silu_canonical<ScalarLanes>(g), g / (1.0f + exp_canonical(-g))) << g;
    EXPECT_NEAR(silu_canonical<ScalarLanes>(g), g / (1.0 + std::exp(-double{g})),
                3e-7 * std::fabs(g))
        << g;
  }
  EXPECT_EQ(silu_canonical<ScalarLanes>(-200.0f), 0.0f);
}

TEST(GeluTest, IsTheTanhForm) {
  const double slope = std::sqrt(2.0 / 3.14159265358979323846);
  float worst = 0;
  for (float g = -12.0f; g < 12.0f; g += 0.00137f) {
    const double exact =
        0.5 * g * (1.0 + std::tanh(slope * (double{g} + 0.044715 * double{g} * g * g)));
    const auto error = static_cast<float>(std::fabs(gelu_canonical<ScalarLanes>(g) - exact));
    worst = std::max(worst, error / std::max(1.0f, std::fabs(g)));
  }
  EXPECT_LT(worst, 3e-7f);
  EXPECT_EQ(gelu_canonical<ScalarLanes>(0.0f), 0.0f);
  EXPECT_EQ(gelu_canonical<ScalarLanes>(-200.0f), 0.0f);
  EXPECT_EQ(gelu_canonical<ScalarLanes>(-1e20f), 0.0f);
  EXPECT_EQ(gelu_canonical<ScalarLanes>(200.0f), 200.0f);
  EXPECT_EQ(gelu_canonical<ScalarLanes>(1e20f), 1e20f);
}

}  // namespace
}  // namespace baton::kernels
