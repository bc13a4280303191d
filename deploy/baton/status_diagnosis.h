#pragma once

// The first question of every operator, answered from what the router measured: are answers slow to
// start (queue, prefill, hand-over), or slow to stream (steps, bandwidth, preemptions), and what is
// the limit?

#include <string>
#include <vector>

#include "deploy/baton/status_data.h"

namespace baton::cli {

// Below that many requests in the window medians say nothing.
inline constexpr int64_t kFewestRequests = 5;

// Lines of text; lines that begin with "  -> " say what follows from the line above. Empty when the
// router tells no load. Claims nothing that the data does not show.
std::vector<std::string> diagnose(const ClusterStatus& status);

}  // namespace baton::cli
