#pragma once

// exp, silu and gelu in f32: one sequence of IEEE operations for every instruction-set level, so
// equal bits (docs/numerics.md). Written over a lane type; exp_canonical(float) is the scalar one.
//
// exp: n = round(x / ln 2), r = x - n ln 2 in two parts, polynomial of degree 6 in r (coefficients
// of Cephes expf, https://netlib.org/cephes/), then 2^n is added to the exponent field. Error
// < 0.87 ulp over all x with a normal result (all of them were compared with double once; the test
// takes a sample against long double). Does not depend on the flush-to-zero mode:
//   x below ln(FLT_MIN), also -inf  ->  +0        x above ln(FLT_MAX), also +inf  ->  +inf
//   |x| < 2^-25, also +-0           ->  1         NaN                             ->  NaN

#include "common/kernels/math/lanes_scalar.h"

namespace baton::kernels {

inline constexpr float kExpLowest = -0x1.5d589ep+6f;  // -87.33654: result is FLT_MIN * 1.000018
inline constexpr float kExpHighest = 0x1.62e42ep+6f;  // 88.72283: result is FLT_MAX * 0.999985

// exp(x - n ln 2), near [1/sqrt(2), sqrt(2)].
template <class L>
[[gnu::always_inline]] inline typename L::F exp_polynomial(typename L::F x, typename L::F n) {
  using F = typename L::F;
  F r = L::fma(n, L::set1(-0.693359375f), x);
  r = L::fma(n, L::set1(2.12194440e-4f), r);
  F p = L::set1(1.9875691500e-4f);
  p = L::fma(p, r, L::set1(1.3981999507e-3f));
  p = L::fma(p, r, L::set1(8.3334519073e-3f));
  p = L::fma(p, r, L::set1(4.1665795894e-2f));
  p = L::fma(p, r, L::set1(1.6666665459e-1f));
  p = L::fma(p, r, L::set1(5.0000001201e-1f));
  p = L::fma(p, r, L::set1(1.0f));
  return L::fma(p, r, L::set1(1.0f));
}

template <class L>
[[gnu::always_inline]] inline typename L::F exp_canonical(typename L::F x) {
  using F = typename L::F;
  // Adding 1.5 * 2^23 leaves round(x / ln 2) in the low bits of the sum.
  const F magic = L::set1(12582912.0f);
  const F shifted = L::fma(x, L::set1(0x1.715476p+0f), magic);
  const F p = exp_polynomial<L>(x, L::sub(shifted, magic));
  F e = L::from_bits(L::add_bits(L::bits(p), L::template shift_left<23>(L::bits(shifted))));
  e = L::select(L::less(x, L::set1(kExpLowest)), L::set1(0.0f), e);
  e = L::select(L::less(L::set1(kExpHighest), x), L::set1(__builtin_inff()), e);
  return L::select(L::is_nan(x), x, e);
}

// The bits of exp_canonical for x <= 0 and NaN (any x otherwise), with four operations fewer: no
// overflow to look for, and 2^n is a factor that leaves NaN alone.
template <class L>
[[gnu::always_inline]] inline typename L::F exp_nonpositive(typename L::F x) {
  using F = typename L::F;
  // As in exp_canonical, with the exponent's bias of 127 in the low bits too.
  const F magic = L::set1(12582912.0f + 127.0f);
  const F shifted = L::fma(x, L::set1(0x1.715476p+0f), magic);
  const F p = exp_polynomial<L>(x, L::sub(shifted, magic));
  const F power = L::from_bits(L::template shift_left<23>(L::bits(shifted)));
  return L::select(L::less(x, L::set1(kExpLowest)), L::set1(0.0f), L::mul(p, power));
}

// g / (1 + exp(-g)) with one IEEE division. -inf gives NaN, other large negatives -0.
template <class L>
[[gnu::always_inline]] inline typename L::F silu_canonical(typename L::F g) {
  const typename L::F e = exp_canonical<L>(L::sub(L::set1(0.0f), g));
  return L::div(g, L::add(L::set1(1.0f), e));
}

// The tanh form of gelu, g/2 * (1 + tanh(sqrt(2/pi) * (g + 0.044715 g^3))), written as
// g / (1 + exp(-g * (a + b g^2))), a = 2 sqrt(2/pi), b = 0.044715 a. -inf gives NaN, other large
// negatives -0.
template <class L>
[[gnu::always_inline]] inline typename L::F gelu_canonical(typename L::F g) {
  using F = typename L::F;
  const F slope = L::fma(L::mul(g, g), L::set1(0x1.2444f2p-4f), L::set1(0x1.988454p+0f));
  const F e = exp_canonical<L>(L::sub(L::set1(0.0f), L::mul(g, slope)));
  return L::div(g, L::add(L::set1(1.0f), e));
}

[[gnu::always_inline]] inline float exp_canonical(float x) { return exp_canonical<ScalarLanes>(x); }

}  // namespace baton::kernels
