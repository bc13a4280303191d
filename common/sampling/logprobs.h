#pragma once

// Log-probabilities of raw logits: the log-softmax of what the model computed, before bias,
// penalties, temperature and truncation.

#include <span>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/sampling/scratch.h"

namespace baton::sampling {

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0.0f;
  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

struct TokenLogprobs {
  float sampled = 0.0f;           // of the token itself
  std::vector<TokenLogprob> top;  // most likely first, ties by lower id
  int rank = 0;                   // of the token, 1 the most likely; 0 when nobody asked
  friend bool operator==(const TokenLogprobs&, const TokenLogprobs&) = default;
};

// Of a whole row ([vocab], f32), for when the row is overwritten before the token is known.
struct RowLogprobs {
  double log_sum_exp = 0.0;
  std::vector<TokenLogprob> top;
};

// internal_error when a logit is NaN or +infinity or all are -infinity.
Result<RowLogprobs> row_logprobs(std::span<const float> logits, int top, Scratch& scratch);

// `logit` is that of the token, from the same row.
TokenLogprobs logprobs_of(RowLogprobs row, float logit);

// The log-probability and rank of `id` (a prompt token, or one chosen elsewhere) and the `top` most
// likely of its row. Precondition: id is in the row.
Result<TokenLogprobs> token_logprobs(std::span<const float> logits, TokenId id, int top,
                                     Scratch& scratch);

}  // namespace baton::sampling
