#pragma once

// Repetition, presence and frequency penalties. The counts are a function of prompt and output, so
// a moved request rebuilds them.

#include <span>
#include <unordered_map>

#include "common/base/ids.h"
#include "common/sampling/params.h"

namespace baton::sampling {

// Not thread-safe.
class Penalties {
 public:
  // Whether the parameters ask for any.
  static bool wanted(const SamplingParams& params);

  // Ids outside [0, vocab_size) are ignored.
  Penalties(const SamplingParams& params, std::span<const TokenId> prompt,
            std::span<const TokenId> output, int vocab_size);

  void count_output(TokenId id);
  // logits: f32 [vocab].
  void apply(std::span<float> logits) const;

 private:
  float repetition_;
  float presence_;
  float frequency_;
  int vocab_size_;
  std::unordered_map<TokenId, int> output_counts_;  // 0 for a token that only the prompt has
};

}  // namespace baton::sampling
