// AVX-512 with AVX512_BF16, of which only the conversion is used: its dot product adds in another
// order (docs/numerics.md). VCVTNE2PS2BF16 rounds two vectors to nearest even; it flushes
// denormals, which expanded weights never are.

#include "common/kernels/matmul/expand_avx512.h"

namespace baton::kernels {
namespace {

// Words of the converted pair: 0-15 are the even elements of the columns, 16-31 the odd ones.
alignas(64) constexpr uint16_t kInterleaved[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                   21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                   11, 27, 12, 28, 13, 29, 14, 30, 15, 31};

class RoundByConversion {
 public:
  [[gnu::always_inline]] I32 to_dwords(F32 even, F32 odd) const {
    return _mm512_permutexvar_epi16(_mm512_load_si512(kInterleaved), converted(even, odd));
  }
  // Each column's bf16 in the high half of its lane: the low halves are masked to zero.
  [[gnu::always_inline]] void in_place(F32& even, F32& odd) const {
    const I32 words = converted(even, odd);
    const I32 from_odd = _mm512_load_si512(kInterleaved);
    const I32 from_even = _mm512_slli_epi32(from_odd, 16);
    constexpr __mmask32 kHighHalves = 0xAAAAAAAA;
    even = _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(kHighHalves, from_even, words));
    odd = _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(kHighHalves, from_odd, words));
  }

 private:
  [[gnu::always_inline]] static I32 converted(F32 even, F32 odd) {
    return reinterpret_cast<I32>(_mm512_cvtne2ps_pbh(odd, even));
  }
};

}  // namespace

LevelKernels avx512_bf16_matmul_kernels() {
  LevelKernels kernels = avx512_matmul_kernels();
  kernels.expand = expand<RoundByConversion>;
  kernels.few_rows = few_rows<RoundByConversion>;
  return kernels;
}

}  // namespace baton::kernels
