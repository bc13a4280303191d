#pragma once

// Tickets that ended without a commit while receives were still posted into their blocks. A posted
// receive cannot be taken back, so the blocks stay out of use until the last one has ended.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"

namespace baton::kv_transfer {

class Quarantine {
 public:
  explicit Quarantine(Duration alarm_after) : alarm_after_(alarm_after) {}

  void enter(uint64_t reservation, TimePoint now) { inside_.emplace(reservation, Entry{now}); }
  void leave(uint64_t reservation) { inside_.erase(reservation); }
  size_t size() const { return inside_.size(); }
  // Those that have been inside for longer than the alarm, each told once.
  std::vector<uint64_t> overdue(TimePoint now);

 private:
  struct Entry {
    TimePoint since;
    bool told = false;
  };
  const Duration alarm_after_;
  std::unordered_map<uint64_t, Entry> inside_;
};

}  // namespace baton::kv_transfer
