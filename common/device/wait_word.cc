#include "common/device/wait_word.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <ctime>

namespace baton::device {
namespace {

constexpr auto kSpinTime = std::chrono::microseconds(30);
constexpr int kPausesPerClockRead = 16;
constexpr int kYields = 4;
constexpr long kSleepNs = 500'000'000;

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

void futex_wait(std::atomic<uint32_t>* word, uint32_t seen) {
  const timespec timeout{0, kSleepNs};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &timeout, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

// Whether the word moved on while it was watched awake.
bool WaitWord::moves_soon(uint32_t seen, WaitPolicy policy) const {
  if (policy == WaitPolicy::kYield) {
    for (int i = 0; i < kYields && value() == seen; ++i) {
      sched_yield();
    }
    return value() != seen;
  }
  // Measured in time, not in pauses: PAUSE takes 40 cycles on one CPU and 140 on another.
  const auto until = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPausesPerClockRead && value() == seen; ++i) {
      _mm_pause();
    }
  } while (value() == seen && std::chrono::steady_clock::now() < until);
  return value() != seen;
}

void WaitWord::wait_while(uint32_t seen, WaitPolicy policy) {
  if (moves_soon(seen, policy)) {
    return;
  }
  while (value() == seen) {
    // Either advance() sees this sleeper, or the kernel sees the new value: both sides write one
    // word and then read the other, which only sequential consistency orders.
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    if (value_.load(std::memory_order_seq_cst) == seen) {
      futex_wait(&value_, seen);
    }
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }
}

void WaitWord::advance() {
  value_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    futex_wake_all(&value_);
  }
}

}  // namespace baton::device
