#pragma once

// The dice of a simulated schedule: one seed, one schedule.

#include <cstdint>

#include "common/base/clock.h"
#include "common/base/random.h"

namespace baton::kv_transfer::simulation {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  uint64_t below(uint64_t n) { return random_.next() % n; }  // n >= 1
  int between(int low, int high) {
    return low + static_cast<int>(below(static_cast<uint64_t>(high - low) + 1));
  }
  // True `per_mille` times of a thousand.
  bool chance(int per_mille) { return below(1'000) < static_cast<uint64_t>(per_mille); }
  Duration up_to(Duration most) {
    return Duration(static_cast<Duration::rep>(below(static_cast<uint64_t>(most.count()) + 1)));
  }
  Random& random() { return random_; }

 private:
  SeededRandom random_;
};

}  // namespace baton::kv_transfer::simulation
