#pragma once

// Row operations over a lane type. Included by one source per instruction-set level; nothing here
// may be a function that the linker could merge across levels, so all is a template on the lanes.

#include "common/kernels/math/exp.h"
#include "common/kernels/math/sum.h"
#include "common/sampling/row_ops.h"

namespace baton::sampling {

template <class L>
struct RowOpsImpl {
  using F = typename L::F;
  static constexpr int kWidth = L::kWidth;

  static bool any_set(F flags) {
    float lanes[kWidth];
    L::store(lanes, flags);
    bool any = false;
    for (int i = 0; i < kWidth; ++i) {
      any |= lanes[i] != 0.0f;
    }
    return any;
  }

  static bool is_bounded(const float* x, int n) {
    const F infinity = L::set1(__builtin_inff());
    const F one = L::set1(1.0f);
    F bad = L::set1(0.0f);
    for (int i = 0; i < n; i += kWidth) {
      const int count = n - i < kWidth ? n - i : kWidth;
      bad = L::select(L::less(L::load_first(x + i, count), infinity), bad, one);
    }
    return !any_set(bad);
  }

  static float maximum_of(F v) {
    float lanes[kWidth];
    L::store(lanes, v);
    for (int half = kWidth / 2; half >= 1; half /= 2) {
      for (int i = 0; i < half; ++i) {
        lanes[i] = lanes[i] > lanes[i + half] ? lanes[i] : lanes[i + half];
      }
    }
    return lanes[0];
  }

  static float chunk_maximum(const float* x, int n) {
    F best = L::set1(-__builtin_inff());
    for (int i = 0; i < n; i += kWidth) {
      const int count = n - i < kWidth ? n - i : kWidth;
      const F v =
          L::select(L::first(count), L::load_first(x + i, count), L::set1(-__builtin_inff()));
      best = L::max(v, best);
    }
    return maximum_of(best);
  }

  static void maxima_of(const float* x, int n, float* maxima) {
    for (int start = 0; start < n; start += kChunk) {
      const int count = n - start < kChunk ? n - start : kChunk;
      maxima[start / kChunk] = chunk_maximum(x + start, count);
    }
  }

  static void divide_and_maxima(float* x, int n, float divisor, float* maxima) {
    const F d = L::set1(divisor);
    for (int start = 0; start < n; start += kChunk) {
      const int count = n - start < kChunk ? n - start : kChunk;
      for (int i = 0; divisor != 1.0f && i < count; i += kWidth) {
        const int part = count - i < kWidth ? count - i : kWidth;
        L::store_first(x + start + i, L::div(L::load_first(x + start + i, part), d), part);
      }
      maxima[start / kChunk] = chunk_maximum(x + start, count);
    }
  }

  static float weigh_block(const float* x, int n, F max, float* weights) {
    kernels::StridedSum<L> sum;
    for (int j = 0; j < n; j += 16) {
      for (int v = 0; v < kernels::StridedSum<L>::kVectors; ++v) {
        const int at = j + v * kWidth;
        const int left = n - at;
        const int count = left <= 0 ? 0 : left < kWidth ? left : kWidth;
        if (count == 0) {
          break;
        }
        const F e = kernels::exp_nonpositive<L>(L::sub(L::load_first(x + at, count), max));
        const F w = L::select(L::first(count), e, L::set1(0.0f));
        L::store_first(weights + at, w, count);
        sum.partial[v] = L::add(sum.partial[v], w);
      }
    }
    return sum.fold();
  }

  static void weigh(const float* x, int n, float max, float* weights, float* sums) {
    for (int start = 0; start < n; start += kBlock) {
      const int count = n - start < kBlock ? n - start : kBlock;
      sums[start / kBlock] = weigh_block(x + start, count, L::set1(max), weights + start);
    }
  }

  static void keep(float* x, int n, const uint64_t* words) {
    const F never = L::set1(-__builtin_inff());
    for (int start = 0; start < n; start += 64) {
      uint64_t word = words[start / 64];
      for (int i = start; i < n && i < start + 64; i += kWidth) {
        const int count = n - i < kWidth ? n - i : kWidth;
        const auto bits = static_cast<uint32_t>(word);
        L::store_first(x + i, L::select(L::of_bits(bits), L::load_first(x + i, count), never),
                       count);
        word >>= kWidth;
      }
    }
  }

  static constexpr RowOps ops() {
    return {.is_bounded = is_bounded,
            .divide_and_maxima = divide_and_maxima,
            .maxima_of = maxima_of,
            .weigh = weigh,
            .keep = keep};
  }
};

}  // namespace baton::sampling
