// AVX-512 with AVX512_BF16: VCVTNE2PS2BF16 rounds two vectors to nearest even (it flushes
// denormals, which expanded weights never are), and VDPBF16PS does two FMAs in a lane at once,
//   sum = fma(x.low, w.low, fma(x.high, w.high, sum)),
// rounded after each and with denormals flushed (Intel SDM volume 2, VDPBF16PS). The canonical
// product has a chain of even elements and one of odd elements, so a dword holds two neighbours of
// one chain, the earlier one in its high half: chain order.

#include "common/kernels/math/lanes_avx512.h"
#include "common/kernels/matmul/expand_avx512.h"

namespace baton::kernels {
namespace {

// Words of the converted pair: 0-15 are the low halves of the columns, 16-31 the high ones.
alignas(64) constexpr uint16_t kInterleaved[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                   21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                   11, 27, 12, 28, 13, 29, 14, 30, 15, 31};

class RoundByConversion {
 public:
  [[gnu::always_inline]] I32 to_dwords(F32 low, F32 high) const {
    return _mm512_permutexvar_epi16(_mm512_load_si512(kInterleaved), converted(low, high));
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
  [[gnu::always_inline]] static I32 converted(F32 low, F32 high) {
    return reinterpret_cast<I32>(_mm512_cvtne2ps_pbh(high, low));
  }
};

[[gnu::always_inline]] inline F32 dot(F32 sum, I32 w, I32 x) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(x));
}

[[gnu::always_inline]] inline I32 broadcast_dword(const std::byte* at) {
  int32_t dword;
  __builtin_memcpy(&dword, at, sizeof(dword));
  return _mm512_set1_epi32(dword);
}

// The sums of one block; activations are bf16 in chain order.
struct ChainDot {
  static constexpr int kMostRows = 8;
  static constexpr ptrdiff_t kRowBytes = kChunkK * sizeof(uint16_t) + 64;
  static constexpr ptrdiff_t kBlockBytes = 32 * sizeof(uint16_t);

  template <typename Round, int kRows>
  struct Sink {
    Round round;
    const std::byte* x;
    F32 even[kRows];
    F32 odd[kRows];
    F32 first_even;
    F32 first_odd;
    [[gnu::always_inline]] void pair(int p, F32 e, F32 o) {
      if (p % 2 == 0) {
        first_even = e;
        first_odd = o;
        return;
      }
      const I32 evens = round.to_dwords(e, first_even);
      const I32 odds = round.to_dwords(o, first_odd);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const std::byte* four = x + r * kRowBytes + (p - 1) * 4;
        even[r] = dot(even[r], evens, broadcast_dword(four));
        odd[r] = dot(odd[r], odds, broadcast_dword(four + 4));
      }
    }
  };
};

void arrange(const uint16_t* x, int count, std::byte* out) {
  Avx512Lanes::copy_in_chain_order(x, count, reinterpret_cast<uint16_t*>(out));
}

// y += x * W for up to two panels of bf16 blocks.
struct DotArgs {
  const uint32_t* weights[2];
  int weight_stride;  // dwords from a row of 16 pairs to the next one
  const std::byte* ahead[2];
  ptrdiff_t ahead_stride;
  int blocks;
  const std::byte* x;
  ptrdiff_t x_stride;  // bytes
  int rows;
  float* y;
  int y_stride;
  bool accumulate;  // else y is written
};

// Six rows of two panels: 24 accumulators, four operands; a broadcast feeds two products.
constexpr int kDotRows = 6;

template <int kRows, int kPanels, int kFetch>
void dot_tile(const DotArgs& args, const std::byte* x, float* y) {
  constexpr __mmask32 kHighHalves = 0xAAAAAAAA;
  const std::byte* ahead[2] = {args.ahead[0], args.ahead[1]};
  const uint32_t* weights[2] = {args.weights[0], args.weights[1]};
  const ptrdiff_t stride = args.weight_stride;
  for (int block = 0; block < args.blocks; ++block) {
    F32 even[kPanels][kRows];
    F32 odd[kPanels][kRows];
#pragma GCC unroll 2
    for (int n = 0; n < kPanels; ++n) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        even[n][r] = _mm512_setzero_ps();
        odd[n][r] = _mm512_setzero_ps();
      }
    }
    for (int four = 0; four < kPairs / 2; ++four, x += 8) {
      I32 evens[kPanels];
      I32 odds[kPanels];
#pragma GCC unroll 2
      for (int n = 0; n < kPanels; ++n) {
#pragma GCC unroll 2
        for (int line = 0; line < kFetch; ++line) {
          _mm_prefetch(ahead[n] + line * args.ahead_stride, _MM_HINT_T0);
        }
        ahead[n] += kFetch * args.ahead_stride;
        const I32 first = _mm512_loadu_si512(weights[n]);
        const I32 second = _mm512_loadu_si512(weights[n] + stride);
        evens[n] = _mm512_mask_blend_epi16(kHighHalves, second, _mm512_slli_epi32(first, 16));
        odds[n] = _mm512_mask_blend_epi16(kHighHalves, _mm512_srli_epi32(second, 16), first);
        weights[n] += 2 * stride;
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const I32 even_x = broadcast_dword(x + r * args.x_stride);
        const I32 odd_x = broadcast_dword(x + r * args.x_stride + 4);
#pragma GCC unroll 2
        for (int n = 0; n < kPanels; ++n) {
          even[n][r] = dot(even[n][r], evens[n], even_x);
          odd[n][r] = dot(odd[n][r], odds[n], odd_x);
        }
      }
    }
    const bool add = args.accumulate || block > 0;
#pragma GCC unroll 2
    for (int n = 0; n < kPanels; ++n) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        float* out = y + static_cast<ptrdiff_t>(r) * args.y_stride + n * kLanes;
        F32 sum = _mm512_add_ps(even[n][r], odd[n][r]);
        if (add) {
          sum = _mm512_add_ps(_mm512_loadu_ps(out), sum);
        }
        _mm512_storeu_ps(out, sum);
      }
    }
  }
}

template <int kRows, int kPanels, int kFetch>
void dot_rows(const DotArgs& args, int rows, const std::byte* x, float* y) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      dot_rows<kRows - 1, kPanels, kFetch>(args, rows, x, y);
      return;
    }
  }
  dot_tile<kRows, kPanels, kFetch>(args, x, y);
}

template <int kFetch>
void dot_panels(const DotArgs& args, int rows, const std::byte* x, float* y) {
  if (args.weights[1] != nullptr) {
    dot_rows<kDotRows, 2, kFetch>(args, rows, x, y);
  } else {
    dot_rows<kDotRows, 1, kFetch>(args, rows, x, y);
  }
}

// The rows in tiles of about equal height, the first two of which fetch half of what is next each.
void dot_all(DotArgs args) {
  int tiles = (args.rows + kDotRows - 1) / kDotRows;
  const bool halves = tiles > 1;
  for (int row = 0, tile = 0; row < args.rows; --tiles, ++tile) {
    const int rows = (args.rows - row + tiles - 1) / tiles;
    const std::byte* x = args.x + row * args.x_stride;
    float* y = args.y + static_cast<ptrdiff_t>(row) * args.y_stride;
    if (!halves) {
      dot_panels<2>(args, rows, x, y);
    } else if (tile < 2) {
      dot_panels<1>(args, rows, x, y);
      args.ahead[0] += args.blocks * (kPairs / 2) * args.ahead_stride;
      args.ahead[1] += args.blocks * (kPairs / 2) * args.ahead_stride;
    } else {
      dot_panels<0>(args, rows, x, y);
    }
    row += rows;
  }
}

void multiply(const MultiplyArgs& args) {
  dot_all({.weights = {args.weights[0], args.weights[1]},
           .weight_stride = kLanes,
           .ahead = {args.ahead[0], args.ahead[1]},
           .ahead_stride = 64,
           .blocks = args.blocks,
           .x = args.x,
           .x_stride = ChainDot::kRowBytes,
           .rows = args.rows,
           .y = args.y,
           .y_stride = args.y_stride,
           .accumulate = true});
}

}  // namespace

LevelKernels avx512_bf16_matmul_kernels() {
  LevelKernels kernels = avx512_matmul_kernels();
  kernels.expand = expand<RoundByConversion>;
  kernels.few_rows = few_rows<RoundByConversion, FmaDot>;
  return kernels;
}

LevelKernels avx512_dot_matmul_kernels() {
  return {.arrange = arrange,
          .row_bytes = ChainDot::kRowBytes,
          .expand = expand<RoundByConversion>,
          .multiply = multiply,
          .few_rows = few_rows<RoundByConversion, ChainDot>,
          .max_few_rows = ChainDot::kMostRows};
}

void avx512_dot(const TileArgs& args, TileRows& /*configured*/) {
  const auto* first = reinterpret_cast<const std::byte*>(args.weights[0]) + args.ahead_bytes;
  dot_all({.weights = {args.weights[0], args.weights[1]},
           .weight_stride = args.weight_stride,
           .ahead = {first, first + sizeof(uint32_t) * kLanes},
           .ahead_stride = static_cast<ptrdiff_t>(sizeof(uint32_t)) * args.weight_stride,
           .blocks = args.blocks,
           .x = reinterpret_cast<const std::byte*>(args.x),
           .x_stride = static_cast<ptrdiff_t>(sizeof(uint16_t)) * args.x_stride,
           .rows = args.rows,
           .y = args.y,
           .y_stride = args.y_stride,
           .accumulate = args.accumulate});
}

bool dot_is_canonical() {
  static const bool canonical = [] {
    const unsigned int control = _mm_getcsr();
    _mm_setcsr(control | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
    uint32_t state = 1;
    const auto random = [&state] {
      state = state * 1664525u + 1013904223u;
      return state >> 8;
    };
    const I32 high_halves = _mm512_set1_epi32(static_cast<int>(0xFFFF0000));
    bool same = true;
    for (int round = 0; round < 2048; ++round) {
      // Exponents near each other and near the smallest: sums that cancel, results that vanish.
      const uint32_t least = round % 4 == 0 ? 58 : 118;
      alignas(64) uint16_t x[32];
      alignas(64) uint16_t w[32];
      alignas(64) uint32_t c[16];
      for (int i = 0; i < 32; ++i) {
        x[i] = static_cast<uint16_t>((random() & 0x807F) | ((least + random() % 12) << 7));
        w[i] = static_cast<uint16_t>((random() & 0x807F) | ((least + random() % 12) << 7));
      }
      for (uint32_t& value : c) {
        const uint32_t exponent = 2 * least > 130 ? 2 * least - 127 + random() % 20 : random() % 8;
        value = (random() << 31) | (exponent << 23) | (random() & 0x7FFFFF);
      }
      const I32 a = _mm512_load_si512(x);
      const I32 b = _mm512_load_si512(w);
      const F32 start = _mm512_castsi512_ps(_mm512_load_si512(c));
      F32 sum = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_epi32(a, high_halves)),
                                _mm512_castsi512_ps(_mm512_and_epi32(b, high_halves)), start);
      sum = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(a, 16)),
                            _mm512_castsi512_ps(_mm512_slli_epi32(b, 16)), sum);
      same = same && _mm512_cmpneq_epi32_mask(_mm512_castps_si512(sum),
                                              _mm512_castps_si512(dot(start, a, b))) == 0;
    }
    _mm_setcsr(control);
    return same;
  }();
  return canonical;
}

}  // namespace baton::kernels
