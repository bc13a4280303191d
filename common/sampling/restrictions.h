#pragma once

// Which tokens may come next: `allowed_token_ids` and `bad_words`. What a bad word forbids depends
// on the output so far, so a moved request rebuilds it.

#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/sampling/params.h"

namespace baton::sampling {

// Not thread-safe.
class Restrictions {
 public:
  // Whether the parameters ask for any.
  static bool wanted(const SamplingParams& params);

  // Ids outside [0, vocab_size) are ignored.
  Restrictions(const SamplingParams& params, std::span<const TokenId> output, int vocab_size);

  void take_output(TokenId id);
  // Sets what may not come to -infinity. logits: f32 [vocab].
  void apply(std::span<float> logits) const;

 private:
  bool completed_by_next(const std::vector<TokenId>& word) const;

  std::vector<TokenId> allowed_;  // ascending, each once
  std::vector<std::vector<TokenId>> bad_words_;
  size_t longest_ = 0;         // of the bad words, without their last token
  std::vector<TokenId> tail_;  // the last `longest_` tokens of the output
};

}  // namespace baton::sampling
