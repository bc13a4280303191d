// Every loop over the accumulators is unrolled: one that is not puts them all into memory.

#include <immintrin.h>

#include "common/kernels/probe/probe_levels.h"

namespace baton::kernels {

double avx512_peak_loop(int64_t rounds) {
  constexpr int kChains = 16;  // two ports times a latency of four, twice
  __m512 sums[kChains];
#pragma GCC unroll 16
  for (int c = 0; c < kChains; ++c) {
    sums[c] = _mm512_setzero_ps();
  }
  __m512 one = _mm512_set1_ps(1.0f);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) {
      sums[c] = _mm512_fmadd_ps(one, one, sums[c]);
      asm volatile("" : "+v"(sums[c]));
    }
  }
  return 2.0 * 16 * kChains;
}

uint64_t avx512_read(const std::byte* data, size_t bytes) {
  constexpr size_t kStep = 512;
  constexpr int kVectors = 8;
  __m512i sums[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    sums[v] = _mm512_setzero_si512();
  }
  for (size_t at = 0; at + kStep <= bytes; at += kStep) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      sums[v] = _mm512_xor_si512(sums[v], _mm512_loadu_si512(data + at + 64 * v));
    }
  }
#pragma GCC unroll 8
  for (int v = 1; v < kVectors; ++v) {
    sums[0] = _mm512_xor_si512(sums[0], sums[v]);
  }
  alignas(64) uint64_t words[8];
  _mm512_store_si512(words, sums[0]);
  return words[0] ^ words[1] ^ words[2] ^ words[3] ^ words[4] ^ words[5] ^ words[6] ^ words[7];
}

}  // namespace baton::kernels
