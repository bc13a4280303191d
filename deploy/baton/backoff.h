#pragma once

// How long to wait before a program that died is started again: the first time 0.1 s, doubling to
// 5 s; one that ran for 30 s begins anew.

#include <algorithm>

#include "common/base/clock.h"

namespace baton::cli {

struct BackoffLimits {
  Duration first = 100ms;
  Duration longest = 5s;
  Duration forgiven_after = 30s;
};

class Backoff {
 public:
  explicit Backoff(const BackoffLimits& limits) : limits_(limits), next_(limits.first) {}

  // After a life of `ran`.
  Duration next(Duration ran) {
    if (ran >= limits_.forgiven_after) {
      next_ = limits_.first;
    }
    const Duration wait = next_;
    next_ = std::min(next_ * 2, limits_.longest);
    return wait;
  }

 private:
  BackoffLimits limits_;
  Duration next_;
};

}  // namespace baton::cli
