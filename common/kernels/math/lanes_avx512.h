#pragma once

// Lane type of the AVX-512 (F, BW, DQ, VL) level (members: lanes_scalar.h). Empty unless the source
// is compiled for it.

#include "common/kernels/math/lanes_scalar.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)

#include <immintrin.h>

namespace baton::kernels {

struct Avx512Lanes {
  static constexpr int kWidth = 16;
  using F = __m512;
  using I = __m512i;
  using M = __mmask16;

  [[gnu::always_inline]] static F set1(float v) { return _mm512_set1_ps(v); }
  [[gnu::always_inline]] static M first(int n) { return static_cast<M>((1u << n) - 1u); }
  // Element i is set where bit i is; further bits do not count.
  [[gnu::always_inline]] static M of_bits(uint32_t bits) { return static_cast<M>(bits); }
  [[gnu::always_inline]] static F load(const float* p) { return _mm512_loadu_ps(p); }
  [[gnu::always_inline]] static F load_first(const float* p, int n) {
    return _mm512_maskz_loadu_ps(first(n), p);
  }
  [[gnu::always_inline]] static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  [[gnu::always_inline]] static void store_first(float* p, F v, int n) {
    _mm512_mask_storeu_ps(p, first(n), v);
  }

  [[gnu::always_inline]] static F add(F a, F b) { return _mm512_add_ps(a, b); }
  [[gnu::always_inline]] static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  [[gnu::always_inline]] static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  [[gnu::always_inline]] static F div(F a, F b) { return _mm512_div_ps(a, b); }
  [[gnu::always_inline]] static F max(F a, F b) { return _mm512_max_ps(a, b); }
  [[gnu::always_inline]] static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }

  // For pairs of elements: p[0], p[0], p[1], p[1]...; (1, 0), (3, 2)...; a * b - c, a * b + c...
  [[gnu::always_inline]] static F load_twice(const float* p) {
    const __m512i index = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return _mm512_permutexvar_ps(index, _mm512_castps256_ps512(_mm256_loadu_ps(p)));
  }
  [[gnu::always_inline]] static F swap_pairs(F v) { return _mm512_permute_ps(v, 0xB1); }
  [[gnu::always_inline]] static F fma_sub_add(F a, F b, F c) { return _mm512_fmaddsub_ps(a, b, c); }

  [[gnu::always_inline]] static M less(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  [[gnu::always_inline]] static M is_nan(F a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
  [[gnu::always_inline]] static F select(M m, F yes, F no) {
    return _mm512_mask_blend_ps(m, no, yes);
  }

  [[gnu::always_inline]] static I bits(F v) { return _mm512_castps_si512(v); }
  [[gnu::always_inline]] static F from_bits(I v) { return _mm512_castsi512_ps(v); }
  [[gnu::always_inline]] static I add_bits(I a, I b) { return _mm512_add_epi32(a, b); }
  template <int kCount>
  [[gnu::always_inline]] static I shift_left(I v) {
    return _mm512_slli_epi32(v, kCount);
  }

  [[gnu::always_inline]] static I load_dwords(const uint32_t* p) { return _mm512_loadu_si512(p); }
  [[gnu::always_inline]] static I load_dwords_first(const uint32_t* p, int n) {
    return _mm512_maskz_loadu_epi32(first(n), p);
  }
  [[gnu::always_inline]] static F even_bf16(I d) { return from_bits(_mm512_slli_epi32(d, 16)); }
  [[gnu::always_inline]] static F odd_bf16(I d) {
    return from_bits(_mm512_and_si512(d, _mm512_set1_epi32(static_cast<int>(0xFFFF0000))));
  }

  [[gnu::always_inline]] static F widen_bf16(__m256i v) {
    return from_bits(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
  }
  [[gnu::always_inline]] static F load_bf16(const uint16_t* p) {
    return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  [[gnu::always_inline]] static F load_bf16_first(const uint16_t* p, int n) {
    return widen_bf16(_mm256_maskz_loadu_epi16(first(n), p));
  }
  [[gnu::always_inline]] static F round_bf16(F v) {
    const I u = bits(v);
    const I low = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const I sum = _mm512_add_epi32(u, _mm512_add_epi32(_mm512_set1_epi32(0x7FFF), low));
    const F rounded = odd_bf16(sum);
    return select(is_nan(v), from_bits(_mm512_set1_epi32(0x7FC00000)), rounded);
  }
  // Chain order, in which VDPBF16PS takes elements (matmul_avx512_bf16.cc): 2, 0, 3, 1 of each
  // four.
  [[gnu::always_inline]] static __m512i chain_order(__m512i words) {
    const __m128i order = _mm_setr_epi8(4, 5, 0, 1, 6, 7, 2, 3, 12, 13, 8, 9, 14, 15, 10, 11);
    return _mm512_shuffle_epi8(words, _mm512_broadcast_i32x4(order));
  }
  // `count` is a multiple of 32.
  [[gnu::always_inline]] static void copy_in_chain_order(const uint16_t* in, int count,
                                                         uint16_t* out) {
    for (int i = 0; i < count; i += 32) {
      _mm512_storeu_si512(out + i, chain_order(_mm512_loadu_si512(in + i)));
    }
  }
  [[gnu::always_inline]] static __m256i high_halves(F v) {
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits(v), 16));
  }
  [[gnu::always_inline]] static void store_rounded_bf16(uint16_t* p, F v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), high_halves(v));
  }
  [[gnu::always_inline]] static void store_rounded_bf16_in_chain_order(uint16_t* p, F v) {
    const __m512i ordered = chain_order(_mm512_castsi256_si512(high_halves(v)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_castsi512_si256(ordered));
  }
  [[gnu::always_inline]] static void store_bf16(uint16_t* p, F v) {
    store_rounded_bf16(p, round_bf16(v));
  }
  [[gnu::always_inline]] static void store_bf16_first(uint16_t* p, F v, int n) {
    _mm256_mask_storeu_epi16(p, first(n), high_halves(round_bf16(v)));
  }
};

}  // namespace baton::kernels

#endif
