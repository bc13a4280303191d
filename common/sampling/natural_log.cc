#include "common/sampling/natural_log.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace baton::sampling {

// x = 2^e m with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh(s), s = (m - 1) / (m + 1), whose series
// has converged to f64 after s^23 because |s| < 0.1716.
double natural_log(double x) {
  if (x <= 0) {
    return -std::numeric_limits<double>::infinity();
  }
  const auto bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1022;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFull) | 0x3FE0000000000000ull);
  if (m < 0.70710678118654752) {
    m = m + m;
    --exponent;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double series = 0.0;
  for (int k = 23; k >= 3; k -= 2) {
    series = (series + 1.0 / k) * z;
  }
  // 2^-32 steps of ln 2, so that e * kHigh is exact.
  constexpr double kHigh = 0x1.62e42fee00000p-1;
  constexpr double kLow = 0x1.a39ef35793c76p-33;
  const double e = exponent;
  return e * kHigh + (e * kLow + 2.0 * (s + s * series));
}

}  // namespace baton::sampling
