#include <immintrin.h>

#include "common/kernels/probe/probe_levels.h"

namespace baton::kernels {

double avx512_dot_peak_loop(int64_t rounds) {
  constexpr int kChains = 24;  // unrolled, as in probe_avx512.cc
  __m512 sums[kChains];
#pragma GCC unroll 24
  for (int c = 0; c < kChains; ++c) {
    sums[c] = _mm512_setzero_ps();
  }
  const auto ones = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3F80));
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 24
    for (int c = 0; c < kChains; ++c) {
      sums[c] = _mm512_dpbf16_ps(sums[c], ones, ones);
      asm volatile("" : "+v"(sums[c]));
    }
  }
  return 2.0 * 32 * kChains;
}

}  // namespace baton::kernels
