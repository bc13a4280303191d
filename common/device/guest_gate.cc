#include "common/device/guest_gate.h"

#include <immintrin.h>

#include <chrono>

namespace baton::device {
namespace {

constexpr uint64_t kInside = 0xFFFF;
constexpr uint64_t kOpen = uint64_t{1} << 16;
constexpr int kRegionShift = 17;
// An item that is under way may end by itself in this time.
constexpr auto kPatience = std::chrono::microseconds(50);
constexpr int kPausesPerClockRead = 16;

uint64_t region_of(uint64_t word) { return word >> kRegionShift; }

}  // namespace

void GuestGate::open() {
  const uint64_t next = region_of(word_.load(std::memory_order_relaxed)) + 1;
  first_.store(next, std::memory_order_relaxed);
  // Release: what the owner prepared for the step. Nobody is inside of a closed gate.
  word_.store((next << kRegionShift) | kOpen, std::memory_order_release);
}

void GuestGate::next_region(const Late& late) { advance(true, late); }

void GuestGate::close(const Late& late) { advance(false, late); }

void GuestGate::advance(bool open, const Late& late) {
  while (true) {
    wait_until_empty(late);
    uint64_t word = word_.load(std::memory_order_relaxed) & ~kInside;
    const uint64_t next = ((region_of(word) + 1) << kRegionShift) | (open ? kOpen : 0);
    // Acquire: what guests did before they left. Release: what the team did before this barrier.
    // It fails when one has entered meanwhile: it finds no work and leaves again.
    if (word_.compare_exchange_strong(word, next, std::memory_order_acq_rel)) {
      return;
    }
  }
}

bool GuestGate::empties_soon() const {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if ((word_.load(std::memory_order_acquire) & kInside) == 0) {
        return true;
      }
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

void GuestGate::wait_until_empty(const Late& late) {
  if ((word_.load(std::memory_order_acquire) & kInside) == 0) {
    return;
  }
  while (!empties_soon()) {
    if (late()) {
      sleep_until_empty();
      return;
    }
  }
}

void GuestGate::sleep_until_empty() {
  awaited_.store(true, std::memory_order_seq_cst);
  while (true) {
    const uint32_t seen = left_.value();
    // Either leave() sees that it is awaited, or this sees that the guest is gone.
    if ((word_.load(std::memory_order_seq_cst) & kInside) == 0) {
      break;
    }
    left_.wait_while(seen, WaitPolicy::kYield);
  }
  awaited_.store(false, std::memory_order_relaxed);
}

GuestGate::Place GuestGate::place() const {
  const uint64_t word = word_.load(std::memory_order_acquire);
  return {(word & kOpen) != 0, region_of(word)};
}

bool GuestGate::try_enter(uint64_t word) {
  return word_.compare_exchange_strong(word, word + 1, std::memory_order_acq_rel);
}

std::optional<uint64_t> GuestGate::enter() {
  while (true) {
    const uint64_t word = word_.load(std::memory_order_relaxed);
    if ((word & kOpen) == 0) {
      return std::nullopt;
    }
    if (try_enter(word)) {
      return region_of(word);
    }
  }
}

bool GuestGate::enter(uint64_t region) {
  while (true) {
    const uint64_t word = word_.load(std::memory_order_relaxed);
    if ((word & kOpen) == 0 || region_of(word) != region) {
      return false;
    }
    if (try_enter(word)) {
      return true;
    }
  }
}

void GuestGate::leave() {
  word_.fetch_sub(1, std::memory_order_seq_cst);
  if (awaited_.load(std::memory_order_seq_cst)) {
    left_.advance();
  }
}

}  // namespace baton::device
