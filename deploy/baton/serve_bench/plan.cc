#include "deploy/baton/serve_bench/plan.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace baton::serve_bench {
namespace {

// Arrivals and lengths come from separate generators, so that other lengths leave the arrivals of
// a seed as they are.
constexpr uint64_t kLengthStream = 0x6c656e67746873;

}  // namespace

double uniform(Random& random) {
  return (static_cast<double>(random.next() >> 11) + 0.5) * 0x1p-53;
}

int Lengths::draw(Random& random) const {
  if (spread <= 0) {
    return std::max(1, mean);
  }
  const double low = mean * (1 - spread);
  const double high = mean * (1 + spread);
  return std::max(1, static_cast<int>(std::lround(low + (high - low) * uniform(random))));
}

std::vector<PlannedRequest> plan_poisson(const PoissonOptions& options) {
  SeededRandom arrivals(options.seed);
  SeededRandom lengths(options.seed ^ kLengthStream);
  std::vector<PlannedRequest> plan;
  double at_s = 0;
  while (options.requests == 0 || plan.size() < options.requests) {
    at_s -= std::log(uniform(arrivals)) / options.rate;
    const auto offset = from_seconds(at_s);
    if (options.window > Duration::zero() && offset >= options.window) {
      break;
    }
    const int input = options.input.draw(lengths);
    plan.push_back({offset, input, options.output.draw(lengths), {}});
  }
  return plan;
}

std::function<std::optional<PlannedRequest>()> closed_loop_source(Lengths input, Lengths output,
                                                                  size_t requests, uint64_t seed) {
  auto lengths = std::make_shared<SeededRandom>(seed ^ kLengthStream);
  return [=, given = size_t{0}]() mutable -> std::optional<PlannedRequest> {
    if (requests > 0 && given == requests) {
      return std::nullopt;
    }
    ++given;
    const int tokens = input.draw(*lengths);
    return PlannedRequest{Duration::zero(), tokens, output.draw(*lengths), {}};
  };
}

CutTrace cut_trace(const std::vector<PlannedRequest>& trace, const TraceCut& cut) {
  CutTrace out;
  for (const PlannedRequest& original : trace) {
    PlannedRequest request = original;
    request.offset = std::chrono::duration_cast<Duration>(original.offset / cut.scale);
    if ((cut.window > Duration::zero() && request.offset >= cut.window) ||
        (cut.requests > 0 && out.requests.size() == cut.requests)) {
      break;
    }
    if (cut.max_input > 0) {
      request.input_tokens = std::min(request.input_tokens, cut.max_input);
      const auto blocks =
          static_cast<size_t>((request.input_tokens + kTraceBlockTokens - 1) / kTraceBlockTokens);
      request.blocks.resize(std::min(request.blocks.size(), blocks));
    }
    if (cut.max_output > 0) {
      request.output_tokens = std::min(request.output_tokens, cut.max_output);
    }
    out.shortened += request.input_tokens != original.input_tokens ||
                     request.output_tokens != original.output_tokens;
    out.requests.push_back(std::move(request));
  }
  return out;
}

}  // namespace baton::serve_bench
