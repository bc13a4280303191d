#pragma once

// What the steps of the last half minute reached: the worker's line in `baton status`. Bounded in
// time and number. Used by the worker loop only.

#include <cstdint>
#include <deque>

#include "common/base/clock.h"
#include "common/wire/messages.h"

namespace baton::worker {

struct StepRecord {
  TimePoint ended{};
  double seconds = 0;
  double roofline_seconds = 0;  // 0: the machine's peaks are not known
  int prompt_tokens = 0;
  int decode_tokens = 0;
  int sequences = 0;
};

// Counters that only grow.
struct WorkerCounts {
  double cache_queries = 0, cache_hits = 0;  // tokens
  double preemptions = 0;
};

class StepWindow {
 public:
  static constexpr Duration kLength = 30s;
  static constexpr size_t kMostSteps = 4096;

  void add(const StepRecord& step);
  // Forgets what is too old. To be called regularly: what `counts` grew by is reckoned from the
  // oldest call inside the window.
  wire::RecentLoad summary(TimePoint now, const WorkerCounts& counts);

 private:
  struct Counted {
    TimePoint at{};
    WorkerCounts counts;
  };
  std::deque<StepRecord> steps_;
  std::deque<Counted> counts_;
};

}  // namespace baton::worker
