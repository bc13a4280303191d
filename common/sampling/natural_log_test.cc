#include "common/sampling/natural_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/base/random.h"

namespace baton::sampling {
namespace {

TEST(NaturalLogTest, StaysWithinTwoUlpOfLongDouble) {
  SeededRandom random(11);
  double worst = 0;
  for (int i = 0; i < 200'000; ++i) {
    const double mantissa = 1.0 + static_cast<double>(random.next() >> 12) * 0x1p-52;
    const int exponent = i % 3 == 0 ? 0 : static_cast<int>(random.next() % 120) - 60;
    const double x = std::ldexp(mantissa, exponent);
    const long double exact = std::log(static_cast<long double>(x));
    const double ulp = std::nextafter(std::fabs(static_cast<double>(exact)),
                                      std::numeric_limits<double>::infinity()) -
                       std::fabs(static_cast<double>(exact));
    const auto error =
        static_cast<double>(std::fabs(static_cast<long double>(natural_log(x)) - exact) / ulp);
    worst = std::max(worst, error);
  }
  EXPECT_LT(worst, 2.0);
}

TEST(NaturalLogTest, KnowsOneAndZero) {
  EXPECT_EQ(natural_log(1.0), 0.0);
  EXPECT_EQ(natural_log(0.0), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(natural_log(2.0), 0x1.62e42fefa39efp-1);
}

}  // namespace
}  // namespace baton::sampling
