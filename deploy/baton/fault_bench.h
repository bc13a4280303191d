#pragma once

// `baton bench faults`: kills and stops workers of a cluster of its own under load, and measures
// how long it takes until that is noticed and until streams go on.

#include "deploy/baton/fault_cluster.h"

namespace baton::cli {

// The exit status of the program. Blocks SIGINT and SIGTERM: call it before any thread starts.
int run_fault_bench(const FaultBenchOptions& options);

}  // namespace baton::cli
