#pragma once

// `baton bench serve`: load over the OpenAI API against any server, and what became of it.

#include <string>

#include "deploy/baton/serve_bench/options.h"

namespace baton::serve_bench {

// `api_key` may be empty. The exit status of the program: 0, 1 when nothing could be measured or
// every request failed, 2 for flags that do not go together, 130 after Ctrl-C (what was measured so
// far is printed). Blocks SIGINT and SIGTERM for the process: call it before any thread starts.
int run_serve_bench(const ServeBenchOptions& options, const std::string& api_key);

}  // namespace baton::serve_bench
