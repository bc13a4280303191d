#pragma once

// What was cancelled: a CANCEL for a key that is not known (yet) must refuse the PREFILL, RESERVE,
// RUN or COMMIT that it overtook. Remembered for a fixed time, bounded in number (the oldest go
// first). Used by the worker loop only.

#include <deque>
#include <unordered_map>

#include "common/base/clock.h"
#include "common/base/ids.h"

namespace baton::worker {

class Tombstones {
 public:
  explicit Tombstones(Duration keep, size_t limit = 65536) : keep_(keep), limit_(limit) {}

  // Refuses attempts up to and including `attempt` of the request from now on.
  void bury(RequestId request, uint16_t attempt, TimePoint now);
  bool refuses(const RunKey& key) const;
  void sweep(TimePoint now);
  size_t size() const { return attempts_.size(); }

 private:
  struct Entry {
    TimePoint until;
    RequestId request;
  };
  struct Grave {
    uint16_t attempt = 0;
    TimePoint until;
  };
  void forget_oldest();

  Duration keep_;
  size_t limit_;  // of entries
  std::deque<Entry> order_;
  std::unordered_map<RequestId, Grave> attempts_;
};

}  // namespace baton::worker
