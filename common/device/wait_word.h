#pragma once

// A counter that threads wait on: they spin or yield for a short while and then sleep in the
// kernel. std::atomic::wait is not used because its spin phase cannot be chosen and costs a shared
// CPU its owner's time.

#include <atomic>
#include <cstdint>

namespace baton::device {

// What a thread does before it sleeps.
enum class WaitPolicy {
  kSpin,   // the team has its CPUs for itself: spin some tens of microseconds, then futex
  kYield,  // CPUs are shared with other busy threads: yield at once, then futex; never spins
};

class WaitWord {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }

  // Returns when value() != seen; what happened before the advance() is visible then. Sleeps are
  // bounded and repeated, so a missed wake-up costs time, never progress.
  void wait_while(uint32_t seen, WaitPolicy policy);

  // Adds one and wakes all waiters.
  void advance();

 private:
  bool moves_soon(uint32_t seen, WaitPolicy policy) const;

  std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace baton::device
