#pragma once

// Finds the highest load that a server carries: doubling until it fails, then bisection. A pure
// function of what the probes say.

#include <functional>
#include <vector>

#include "common/base/status.h"

namespace baton::serve_bench {

inline constexpr double kWantedAttainment = 0.9;

struct ProbeResult {
  double load = 0;  // what was tried: requests a second, or the speed-up of a trace
  double attainment = 0;
  bool passed = false;
};

struct SearchOptions {
  double first = 1;
  double precision = 0.05;  // ends when the lowest load that failed is within this of the best
  int most_halvings = 6;    // of the first load, until the search gives up
  int most_doublings = 12;
};

struct SearchResult {
  double best = 0;                  // highest load that passed; 0 when none did
  bool bounded = false;             // a higher load failed
  std::vector<ProbeResult> probes;  // in order
};

// A probe's error ends the search with it.
Result<SearchResult> search_rate(const SearchOptions& options,
                                 const std::function<Result<ProbeResult>(double load)>& probe);

}  // namespace baton::serve_bench
