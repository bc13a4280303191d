#pragma once

// `baton up`: a whole cluster as child processes of this one.

#include <string>

#include "deploy/baton/cluster_plan.h"

namespace baton::cli {

// `bin_folder` is where the programs to start lie. Runs until stopped; the exit status of the
// program. Blocks SIGINT and SIGTERM for the process: call it before any thread starts.
int run_up(const UpOptions& options, const std::string& bin_folder);

}  // namespace baton::cli
