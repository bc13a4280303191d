#pragma once

// Lane type of the AVX2 + FMA level (members: lanes_scalar.h). Empty unless the source is compiled
// for it.

#include "common/kernels/math/lanes_scalar.h"

#if defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>

namespace baton::kernels {

struct Avx2Lanes {
  static constexpr int kWidth = 8;
  using F = __m256;
  using I = __m256i;
  using M = __m256;  // all bits of an element set or clear

  [[gnu::always_inline]] static F set1(float v) { return _mm256_set1_ps(v); }
  [[gnu::always_inline]] static F load(const float* p) { return _mm256_loadu_ps(p); }
  [[gnu::always_inline]] static I first_bits(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  [[gnu::always_inline]] static F load_first(const float* p, int n) {
    if (n == kWidth) {
      return load(p);
    }
    return _mm256_maskload_ps(p, first_bits(n));
  }
  [[gnu::always_inline]] static void store(float* p, F v) { _mm256_storeu_ps(p, v); }
  [[gnu::always_inline]] static void store_first(float* p, F v, int n) {
    if (n == kWidth) {  // masked stores are slow on some processors
      store(p, v);
    } else {
      _mm256_maskstore_ps(p, first_bits(n), v);
    }
  }

  [[gnu::always_inline]] static F add(F a, F b) { return _mm256_add_ps(a, b); }
  [[gnu::always_inline]] static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  [[gnu::always_inline]] static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  [[gnu::always_inline]] static F div(F a, F b) { return _mm256_div_ps(a, b); }
  [[gnu::always_inline]] static F max(F a, F b) { return _mm256_max_ps(a, b); }
  [[gnu::always_inline]] static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }

  // For pairs of elements: p[0], p[0], p[1], p[1]...; (1, 0), (3, 2)...; a * b - c, a * b + c...
  [[gnu::always_inline]] static F load_twice(const float* p) {
    const __m256i index = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), index);
  }
  [[gnu::always_inline]] static F swap_pairs(F v) { return _mm256_permute_ps(v, 0xB1); }
  [[gnu::always_inline]] static F fma_sub_add(F a, F b, F c) { return _mm256_fmaddsub_ps(a, b, c); }

  [[gnu::always_inline]] static M less(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
  [[gnu::always_inline]] static M is_nan(F a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
  [[gnu::always_inline]] static M first(int n) { return _mm256_castsi256_ps(first_bits(n)); }
  // Element i is set where bit i is; further bits do not count.
  [[gnu::always_inline]] static M of_bits(uint32_t bits) {
    const __m256i one_each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i own = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), one_each);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(own, one_each));
  }
  [[gnu::always_inline]] static F select(M m, F yes, F no) { return _mm256_blendv_ps(no, yes, m); }

  [[gnu::always_inline]] static I bits(F v) { return _mm256_castps_si256(v); }
  [[gnu::always_inline]] static F from_bits(I v) { return _mm256_castsi256_ps(v); }
  [[gnu::always_inline]] static I add_bits(I a, I b) { return _mm256_add_epi32(a, b); }
  template <int kCount>
  [[gnu::always_inline]] static I shift_left(I v) {
    return _mm256_slli_epi32(v, kCount);
  }

  [[gnu::always_inline]] static I load_dwords(const uint32_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  [[gnu::always_inline]] static I load_dwords_first(const uint32_t* p, int n) {
    if (n == kWidth) {
      return load_dwords(p);
    }
    return _mm256_maskload_epi32(reinterpret_cast<const int*>(p), first_bits(n));
  }
  [[gnu::always_inline]] static F even_bf16(I d) { return from_bits(_mm256_slli_epi32(d, 16)); }
  [[gnu::always_inline]] static F odd_bf16(I d) {
    return from_bits(_mm256_and_si256(d, _mm256_set1_epi32(static_cast<int>(0xFFFF0000))));
  }

  [[gnu::always_inline]] static F load_bf16(const uint16_t* p) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return from_bits(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }
  [[gnu::always_inline]] static F load_bf16_first(const uint16_t* p, int n) {
    if (n == kWidth) {
      return load_bf16(p);
    }
    alignas(16) uint16_t copy[8] = {};
    for (int i = 0; i < n; ++i) {
      copy[i] = p[i];
    }
    return load_bf16(copy);
  }
  [[gnu::always_inline]] static F round_bf16(F v) {
    const I u = bits(v);
    const I low = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const I sum = _mm256_add_epi32(u, _mm256_add_epi32(_mm256_set1_epi32(0x7FFF), low));
    const F rounded = odd_bf16(sum);
    return select(is_nan(v), from_bits(_mm256_set1_epi32(0x7FC00000)), rounded);
  }
  [[gnu::always_inline]] static void store_rounded_bf16(uint16_t* p, F v) {
    const I high = _mm256_srli_epi32(bits(v), 16);
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(p),
        _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1)));
  }
  [[gnu::always_inline]] static void store_bf16(uint16_t* p, F v) {
    store_rounded_bf16(p, round_bf16(v));
  }
  [[gnu::always_inline]] static void store_bf16_first(uint16_t* p, F v, int n) {
    if (n == kWidth) {
      store_bf16(p, v);
      return;
    }
    alignas(16) uint16_t copy[8];
    store_bf16(copy, v);
    for (int i = 0; i < n; ++i) {
      p[i] = copy[i];
    }
  }
};

}  // namespace baton::kernels

#endif
