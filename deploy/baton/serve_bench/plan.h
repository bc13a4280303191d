#pragma once

// What is going to be asked: arrival times and lengths, all known before the first request leaves,
// so that no answer can hold a request back. Pure functions of their arguments.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/random.h"

namespace baton::serve_bench {

struct PlannedRequest {
  Duration offset{};  // from the start of the run
  int input_tokens = 0;
  int output_tokens = 0;
  // Of a trace with shared prefixes: one id per block of kTraceBlockTokens prompt tokens.
  std::vector<uint64_t> blocks;
};

inline constexpr int kTraceBlockTokens = 512;

// Uniform within +-spread (a share) of the mean; at least 1.
struct Lengths {
  int mean = 1;
  double spread = 0;
  int draw(Random& random) const;
};

// In (0, 1).
double uniform(Random& random);

struct PoissonOptions {
  double rate = 1;      // a second
  Duration window{};    // arrivals before its end; zero = unlimited
  size_t requests = 0;  // at most; 0 = unlimited. One of the two is given
  Lengths input{};
  Lengths output{};
  uint64_t seed = 1;
};
// Exponential gaps. Arrival times do not depend on the lengths.
std::vector<PlannedRequest> plan_poisson(const PoissonOptions& options);

// Requests of a closed loop, one after the other: lengths only.
std::function<std::optional<PlannedRequest>()> closed_loop_source(Lengths input, Lengths output,
                                                                  size_t requests, uint64_t seed);

struct TraceCut {
  double scale = 1;     // speed-up
  Duration window{};    // after the speed-up; zero = unlimited
  size_t requests = 0;  // 0 = unlimited
  int max_input = 0;    // 0 = unlimited; longer ones are shortened
  int max_output = 0;
};
struct CutTrace {
  std::vector<PlannedRequest> requests;
  size_t shortened = 0;
};
// The part of a trace that is replayed. `trace` is in order of time and begins at zero.
CutTrace cut_trace(const std::vector<PlannedRequest>& trace, const TraceCut& cut);

}  // namespace baton::serve_bench
