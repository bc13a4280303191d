#pragma once

// Where a prompt is prefilled and where it is decoded: the pair with the smallest predicted time to
// the second token, from what the workers last said of themselves. A pure function of its input.
//
//   prefill on P:  queue(P) + (n - hit(P)) / rate(P), then the part of the transfer that its own
//                  compute does not hide, then waiting for blocks on D
//   local on D:    queue(D) + (n - hit(D)) / rate(D), and what its chunks cost the streams of D
//
// Prefix hits are hints of the heartbeats. Rates that are not measured yet count as
// 1,000 tokens a second.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/config/config.h"
#include "router/membership.h"

namespace baton::router {

// Block hashes of a prompt at one block size.
struct PrefixChain {
  int block_tokens = 32;
  std::vector<U128> hashes;
};

struct PlacementRequest {
  std::span<const TokenId> tokens;  // whose KV is needed: prompt and earlier output
  int choices = 1;
  int max_new_tokens = 0;           // per choice; 0 unknown
  bool needs_local = false;         // a moved request with several choices
  std::vector<PrefixChain> chains;  // of `tokens`, at each block size that workers have
};

// A worker that could take part, and what the request was predicted to cost there.
struct CandidateTimes {
  std::string worker;
  wire::Role role = wire::Role::kDecode;
  bool chosen = false;
  int uncached_tokens = 0;
  double queue_ms = 0;
  double prefill_ms = 0;  // computing what is not cached; on a decode worker: were it local
  // Of a decode worker: of the hand-over what the prefill does not hide, waiting for blocks, and
  // the growth of its steps.
  double transfer_ms = 0;
  double blocks_ms = 0;
  double slowdown_ms = 0;
};

// What was predicted for the workers that were chosen.
struct PredictedTimes {
  double queue_ms = 0;
  double prefill_ms = 0;
  double transfer_ms = 0;  // as CandidateTimes
  double blocks_ms = 0;
  double ttft_ms() const { return queue_ms + prefill_ms; }
};

struct Placement {
  bool local = false;
  WorkerState* prefill = nullptr;     // null when local
  std::vector<WorkerState*> decodes;  // best first, at most kMaxDecodes; local: one
  std::string_view decision;          // "remote" or "local", for the metric
  std::string_view reason;
  PredictedTimes predicted;
  std::vector<CandidateTimes> considered;  // prefill workers, then decode workers; best first
};

class PlacementPolicy {
 public:
  // The best decode worker and its fall-backs.
  static constexpr size_t kMaxDecodes = 4;
  // Of each role, in Placement::considered.
  static constexpr size_t kMaxConsidered = 6;

  explicit PlacementPolicy(config::LocalPrefill mode) : mode_(mode) {}

  // unavailable, naming what is missing, when no worker can take a request: what place() begins
  // with, for callers whose request is dear to describe.
  Status check_workers(bool needs_local, const std::vector<WorkerState*>& prefills,
                       const std::vector<WorkerState*>& decodes) const;
  // How long a prompt would wait before it is computed, on the worker where that is shortest.
  double shortest_queue_ms(const std::vector<WorkerState*>& prefills,
                           const std::vector<WorkerState*>& decodes) const;
  // As check_workers() when no worker can take the request.
  Result<Placement> place(const PlacementRequest& request,
                          const std::vector<WorkerState*>& prefills,
                          const std::vector<WorkerState*>& decodes) const;

 private:
  config::LocalPrefill mode_;
};

}  // namespace baton::router
