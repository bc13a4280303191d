#pragma once

// Lane types: one instruction-set level's vector of f32 with the operations that kernels need. A
// kernel written once over a lane type does the same sequence of IEEE operations on every element
// at every level, hence the same bits. All three have the same members:
//
//   kWidth            elements of a vector
//   F, I, M           vector of f32, of 32-bit integers, mask
//   load/store        kWidth elements, any alignment
//   load_first(p, n)  elements [0, n), zero after; reads nothing beyond. n in 0..kWidth
//   store_first       writes elements [0, n)
//   max(a, b)         a > b ? a : b
//   fma(a, b, c)      a * b + c, rounded once
//   even_bf16(d)      of dwords that hold two bf16 each: f32 of the low half
//   odd_bf16(d)       f32 of the high half
//   round_bf16(x)     x rounded to nearest even bf16, as f32; NaN stays NaN
//   store_rounded_bf16(p, x)  stores an x that is a bf16 value
//   store_bf16(p, x)  stores round_bf16(x); store_bf16_first for n elements
//
// Everything is always_inline: a function that the linker could merge across sources compiled for
// different levels must not exist.

#include <cstdint>

namespace baton::kernels {

struct ScalarLanes {
  static constexpr int kWidth = 1;
  using F = float;
  using I = uint32_t;
  using M = bool;

  [[gnu::always_inline]] static F set1(float v) { return v; }
  [[gnu::always_inline]] static F load(const float* p) { return *p; }
  [[gnu::always_inline]] static F load_first(const float* p, int n) { return n > 0 ? *p : 0.0f; }
  [[gnu::always_inline]] static void store(float* p, F v) { *p = v; }
  [[gnu::always_inline]] static void store_first(float* p, F v, int n) {
    if (n > 0) {
      *p = v;
    }
  }

  [[gnu::always_inline]] static F add(F a, F b) { return a + b; }
  [[gnu::always_inline]] static F sub(F a, F b) { return a - b; }
  [[gnu::always_inline]] static F mul(F a, F b) { return a * b; }
  [[gnu::always_inline]] static F div(F a, F b) { return a / b; }
  [[gnu::always_inline]] static F max(F a, F b) { return a > b ? a : b; }
  [[gnu::always_inline]] static F fma(F a, F b, F c) { return __builtin_fmaf(a, b, c); }

  [[gnu::always_inline]] static M less(F a, F b) { return a < b; }
  [[gnu::always_inline]] static M is_nan(F a) { return a != a; }
  [[gnu::always_inline]] static M first(int n) { return n > 0; }
  // Element i is set where bit i is; further bits do not count.
  [[gnu::always_inline]] static M of_bits(uint32_t bits) { return (bits & 1) != 0; }
  [[gnu::always_inline]] static F select(M m, F yes, F no) { return m ? yes : no; }

  [[gnu::always_inline]] static I bits(F v) { return __builtin_bit_cast(uint32_t, v); }
  [[gnu::always_inline]] static F from_bits(I v) { return __builtin_bit_cast(float, v); }
  [[gnu::always_inline]] static I add_bits(I a, I b) { return a + b; }
  template <int kCount>
  [[gnu::always_inline]] static I shift_left(I v) {
    return v << kCount;
  }

  [[gnu::always_inline]] static I load_dwords(const uint32_t* p) { return *p; }
  [[gnu::always_inline]] static I load_dwords_first(const uint32_t* p, int n) {
    return n > 0 ? *p : 0;
  }
  [[gnu::always_inline]] static F even_bf16(I d) { return from_bits(d << 16); }
  [[gnu::always_inline]] static F odd_bf16(I d) { return from_bits(d & 0xFFFF0000u); }

  [[gnu::always_inline]] static F load_bf16(const uint16_t* p) {
    return from_bits(uint32_t{*p} << 16);
  }
  [[gnu::always_inline]] static F load_bf16_first(const uint16_t* p, int n) {
    return n > 0 ? load_bf16(p) : 0.0f;
  }
  [[gnu::always_inline]] static F round_bf16(F v) {
    const uint32_t u = bits(v);
    const uint32_t rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) & 0xFFFF0000u;
    return from_bits(is_nan(v) ? 0x7FC00000u : rounded);
  }
  [[gnu::always_inline]] static void store_rounded_bf16(uint16_t* p, F v) {
    *p = static_cast<uint16_t>(bits(v) >> 16);
  }
  [[gnu::always_inline]] static void store_bf16(uint16_t* p, F v) {
    store_rounded_bf16(p, round_bf16(v));
  }
  [[gnu::always_inline]] static void store_bf16_first(uint16_t* p, F v, int n) {
    if (n > 0) {
      store_bf16(p, v);
    }
  }
};

}  // namespace baton::kernels
