#pragma once

// Where a prompt is prefilled and where it is decoded: the pair with the smallest predicted time to
// the second token, from what the workers last said of themselves. A pure function of its input.
//
//   prefill on P:  queue(P) + (n - hit(P)) / rate(P), then the part of the transfer that its own
//                  compute does not hide, then waiting for blocks on D
//   local on D:    queue(D) + (n - hit(D)) / rate(D), and what its chunks cost the streams of D
//
// Prefix hits are hints of the heartbeats. Rates that are not measured yet count as kAssumedRate.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/config/config.h"
#include "router/membership.h"

namespace baton::router {

struct PlacementRequest {
  std::span<const TokenId> tokens;  // whose KV is needed: prompt and earlier output
  int choices = 1;
  int max_new_tokens = 0;    // per choice; 0 unknown
  bool needs_local = false;  // a moved request with several choices
  std::vector<U128> chain;   // block hashes of `tokens` at kChainBlock tokens
  int chain_block_tokens = 32;
};

struct Placement {
  bool local = false;
  WorkerState* prefill = nullptr;     // null when local
  std::vector<WorkerState*> decodes;  // best first; with local only the first counts
  std::string_view decision;          // "remote" or "local", for the metric
  std::string_view reason;
  double predicted_ttft_ms = 0;
};

class PlacementPolicy {
 public:
  explicit PlacementPolicy(config::LocalPrefill mode) : mode_(mode) {}

  // unavailable, naming what is missing, when no worker can take the request.
  Result<Placement> place(const PlacementRequest& request,
                          const std::vector<WorkerState*>& prefills,
                          const std::vector<WorkerState*>& decodes) const;

 private:
  // A prompt of so few uncached tokens costs the streams of a decode worker less than one step.
  static constexpr int kShortPrompt = 64;

  config::LocalPrefill mode_;
};

}  // namespace baton::router
