#include "common/model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace baton::model {
namespace {

// The pair (as a real number) that turns `turns` times over the original context.
double pair_of_turns(const RopeDescription& rope, double turns) {
  const double positions_per_radian = rope.original_context / (turns * 2.0 * std::numbers::pi);
  return rope.dims * std::log(positions_per_radian) / (2.0 * std::log(double{rope.base}));
}

// How much of a pair's own frequency stays: 1 for fast pairs, 0 for slow ones.
double yarn_share(const RopeDescription& rope, int pair) {
  const double low = std::max(0.0, std::floor(pair_of_turns(rope, rope.beta_fast)));
  const double high = std::min(rope.dims - 1.0, std::ceil(pair_of_turns(rope, rope.beta_slow)));
  const double ramp = (pair - low) / std::max(0.001, high - low);
  return 1.0 - std::clamp(ramp, 0.0, 1.0);
}

double llama3_share(const RopeDescription& rope, double frequency) {
  const double turns = rope.original_context * frequency / (2.0 * std::numbers::pi);
  const double low = rope.low_freq_factor;
  const double high = rope.high_freq_factor;
  return std::clamp((turns - low) / (high - low), 0.0, 1.0);
}

}  // namespace

std::vector<double> rope_frequencies(const RopeDescription& rope) {
  std::vector<double> frequencies(static_cast<size_t>(rope.dims / 2));
  for (int i = 0; i < rope.dims / 2; ++i) {
    double frequency = std::pow(double{rope.base}, -2.0 * i / rope.dims);
    if (!rope.divisors.empty()) {
      frequency /= double{rope.divisors[static_cast<size_t>(i)]};
    }
    double share = 1.0;
    switch (rope.scaling) {
      case RopeScaling::kNone:
        break;
      case RopeScaling::kLinear:
        share = 0.0;
        break;
      case RopeScaling::kYarn:
        share = yarn_share(rope, i);
        break;
      case RopeScaling::kLlama3:
        share = llama3_share(rope, frequency);
        break;
    }
    frequencies[static_cast<size_t>(i)] =
        share * frequency + (1.0 - share) * frequency / double{rope.factor};
  }
  return frequencies;
}

float yarn_magnitude(float factor) {
  return factor <= 1.0F ? 1.0F : static_cast<float>(0.1 * std::log(double{factor}) + 1.0);
}

}  // namespace baton::model
