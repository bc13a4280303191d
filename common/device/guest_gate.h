#pragma once

// How threads on borrowed CPUs ("guests") take part in a step without anybody waiting for one that
// is not there. The step is a row of regions with a barrier of the team's own threads between them.
// A guest enters the region that is under way, does work items of it, and leaves; the barrier waits
// for guests that are inside, and for no others. Entering fails once the region is over.
//
//   word: | region (47 bits) | a step runs (1) | guests inside (16) |

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "common/device/wait_word.h"

namespace baton::device {

class GuestGate {
 public:
  // For the team's own side, by one thread at a time. `late` is called again and again while guests
  // are inside for longer than some microseconds; it returns whether the caller shall sleep until
  // they have left, because they need its CPU.
  using Late = std::function<bool()>;
  void open();
  void next_region(const Late& late);
  void close(const Late& late);

  // For guests.
  struct Place {
    bool open = false;
    uint64_t region = 0;
  };
  Place place() const;
  // The first region of the step; valid inside.
  uint64_t first_region() const { return first_.load(std::memory_order_relaxed); }
  // Into the region under way; its number, or nothing if no step runs.
  std::optional<uint64_t> enter();
  bool enter(uint64_t region);
  void leave();

 private:
  void wait_until_empty(const Late& late);
  bool empties_soon() const;
  void sleep_until_empty();
  void advance(bool open, const Late& late);
  bool try_enter(uint64_t word);

  static constexpr size_t kCacheLine = 64;
  alignas(kCacheLine) std::atomic<uint64_t> word_{0};
  std::atomic<uint64_t> first_{0};
  alignas(kCacheLine) std::atomic<bool> awaited_{false};
  WaitWord left_;  // advances when a guest leaves while it is waited for
};

}  // namespace baton::device
