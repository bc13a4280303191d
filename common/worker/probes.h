#pragma once

// The HTTP address of a worker: /livez (its loop turns), /readyz (it can take work), /metrics.

#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/http/server.h"
#include "common/metrics/registry.h"
#include "common/worker/worker_loop.h"

namespace baton::worker {

struct ProbeLimits {
  Duration loop_stuck = 1s;  // no turn for so long
  Duration step_stuck = 1s;  // a step runs and no layer ends for so long
  // The transfer thread does not turn for so long. More than the loop's, which tells of it.
  Duration transfer_stuck = 2s;
};

// Empty when the worker is healthy, else why it is not. Thread-safe.
std::string not_live_reason(const LoopHealth& health, TimePoint now, const ProbeLimits& limits);
std::string not_ready_reason(const LoopHealth& health, TimePoint now, const ProbeLimits& limits);

// `health`, `clock` and `registry` outlive the server.
Result<std::unique_ptr<http::Server>> serve_probes(const std::string& address,
                                                   const LoopHealth& health, const Clock& clock,
                                                   const metrics::Registry& registry,
                                                   const ProbeLimits& limits);

}  // namespace baton::worker
