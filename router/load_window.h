#pragma once

// What the requests that ended lately were like: the answer to "slow to start or slow to stream?"
// in `baton status`. Bounded in time and number. Used by the router loop only.

#include <cstdint>
#include <deque>
#include <optional>

#include "common/base/clock.h"
#include "router/json_text.h"

namespace baton::router {

// A request that ended; a time is missing when the request did not get so far.
struct EndedRequest {
  TimePoint ended{};
  bool failed = false;
  int remote = 0;  // decisions made for it, those after a move included
  int local = 0;
  int moved = 0;
  std::optional<double> ttft_ms, tpot_ms, queue_ms, prefill_ms, transfer_visible_ms,
      second_token_gap_ms;
};

class LoadWindow {
 public:
  static constexpr Duration kLength = 30s;
  static constexpr size_t kMostRequests = 8192;

  explicit LoadWindow(TimePoint started) : started_(started) {}

  void add(const EndedRequest& request);
  // The value of "load" in the router's status.
  void write(JsonText& json, TimePoint now, int64_t waiting, int64_t running);

 private:
  TimePoint started_;  // what is older is not known
  std::deque<EndedRequest> requests_;
};

}  // namespace baton::router
