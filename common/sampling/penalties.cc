#include "common/sampling/penalties.h"

#include <algorithm>
#include <limits>

namespace baton::sampling {
namespace {

// A tiny penalty may send a logit beyond f32; it stays comparable.
float finite(float value) {
  constexpr float kMost = std::numeric_limits<float>::max();
  return value > kMost ? kMost : value;
}

}  // namespace

bool Penalties::wanted(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f ||
         params.frequency_penalty != 0.0f;
}

Penalties::Penalties(const SamplingParams& params, std::span<const TokenId> prompt,
                     std::span<const TokenId> output, int vocab_size)
    : repetition_(params.repetition_penalty),
      presence_(params.presence_penalty),
      frequency_(params.frequency_penalty),
      vocab_size_(vocab_size) {
  // Only repetition looks at the prompt.
  for (const TokenId id : repetition_ != 1.0f ? prompt : std::span<const TokenId>()) {
    if (id >= 0 && id < vocab_size_) {
      output_counts_.try_emplace(id, 0);
    }
  }
  for (const TokenId id : output) {
    count_output(id);
  }
}

void Penalties::count_output(TokenId id) {
  if (id >= 0 && id < vocab_size_) {
    ++output_counts_[id];
  }
}

// Tokens do not interact, so the map's order does not matter.
void Penalties::apply(std::span<float> logits) const {
  for (const auto& [id, count] : output_counts_) {
    float& logit = logits[static_cast<size_t>(id)];
    if (repetition_ != 1.0f) {
      logit = finite(logit > 0.0f ? logit / repetition_ : logit * repetition_);
    }
    if (count > 0) {
      logit = logit - (presence_ + frequency_ * static_cast<float>(count));
    }
  }
}

}  // namespace baton::sampling
