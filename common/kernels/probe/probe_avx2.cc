// Every loop over the accumulators is unrolled: one that is not puts them all into memory.

#include <immintrin.h>

#include "common/kernels/probe/probe_levels.h"

namespace baton::kernels {

double avx2_peak_loop(int64_t rounds) {
  constexpr int kChains = 12;  // of 16 registers
  __m256 sums[kChains];
#pragma GCC unroll 16
  for (int c = 0; c < kChains; ++c) {
    sums[c] = _mm256_setzero_ps();
  }
  __m256 one = _mm256_set1_ps(1.0f);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) {
      sums[c] = _mm256_fmadd_ps(one, one, sums[c]);
      asm volatile("" : "+x"(sums[c]));
    }
  }
  return 2.0 * 8 * kChains;
}

uint64_t avx2_read(const std::byte* data, size_t bytes) {
  constexpr size_t kStep = 256;
  constexpr int kVectors = 8;
  __m256i sums[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    sums[v] = _mm256_setzero_si256();
  }
  for (size_t at = 0; at + kStep <= bytes; at += kStep) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      sums[v] = _mm256_xor_si256(
          sums[v], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + at + 32 * v)));
    }
  }
#pragma GCC unroll 8
  for (int v = 1; v < kVectors; ++v) {
    sums[0] = _mm256_xor_si256(sums[0], sums[v]);
  }
  alignas(32) uint64_t words[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(words), sums[0]);
  return words[0] ^ words[1] ^ words[2] ^ words[3];
}

}  // namespace baton::kernels
