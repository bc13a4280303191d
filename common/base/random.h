#pragma once

// Source of identifiers and jitter, injected like the clock. Not used for sampling, which is
// counter-based (common/sampling).

#include <cstdint>

#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace baton {

// Thread-safe.
class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t next() = 0;

  U128 next_u128() { return U128{next(), next()}; }
  uint64_t next_nonzero() {
    uint64_t v = next();
    while (v == 0) {
      v = next();
    }
    return v;
  }
};

// Reads the kernel's generator.
class SystemRandom final : public Random {
 public:
  uint64_t next() override;
};

// SplitMix64: the same sequence for the same seed.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  uint64_t next() override;

 private:
  Mutex mutex_;
  uint64_t state_ GUARDED_BY(mutex_);
};

}  // namespace baton
