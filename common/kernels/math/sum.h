#pragma once

// Sums of docs/numerics.md over a lane type: 16 strided partial sums (element j goes to partial
// j mod 16) and the fold 8-4-2-1.

#include "common/kernels/math/lanes_scalar.h"

namespace baton::kernels {

template <class L>
struct StridedSum {
  static constexpr int kVectors = 16 / L::kWidth;
  typename L::F partial[kVectors];

  [[gnu::always_inline]] StridedSum() {
    for (int v = 0; v < kVectors; ++v) {
      partial[v] = L::set1(0.0f);
    }
  }

  [[gnu::always_inline]] float fold() const {
    float s[16];
    for (int v = 0; v < kVectors; ++v) {
      L::store(s + v * L::kWidth, partial[v]);
    }
    for (int half = 8; half >= 1; half /= 2) {
      for (int i = 0; i < half; ++i) {
        s[i] += s[i + half];
      }
    }
    return s[0];
  }
};

}  // namespace baton::kernels
