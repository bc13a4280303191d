#include "common/base/random.h"

#include <sys/random.h>

#include "common/base/check.h"

namespace baton {

uint64_t SystemRandom::next() {
  uint64_t v = 0;
  BATON_CHECK(getrandom(&v, sizeof(v), 0) == sizeof(v), "getrandom failed");
  return v;
}

uint64_t SeededRandom::next() {
  MutexLock lock(mutex_);
  state_ += 0x9E3779B97F4A7C15ull;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

}  // namespace baton
