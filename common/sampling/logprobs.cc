#include "common/sampling/logprobs.h"

#include <algorithm>
#include <limits>

#include "common/base/check.h"
#include "common/sampling/candidates.h"
#include "common/sampling/natural_log.h"
#include "common/sampling/row_ops.h"

namespace baton::sampling {
namespace {

// Rounded once, from f64.
float log_probability(float logit, double log_sum_exp) {
  return static_cast<float>(static_cast<double>(logit) - log_sum_exp);
}

// How many come before entry `at` in the order (value descending, id ascending).
int more_likely(std::span<const float> logits, size_t at) {
  int count = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    count += logits[i] > logits[at] || (logits[i] == logits[at] && i < at) ? 1 : 0;
  }
  return count;
}

}  // namespace

Result<RowLogprobs> row_logprobs(std::span<const float> logits, int top, Scratch& scratch) {
  const RowOps& ops = row_ops(scratch.isa);
  const int n = static_cast<int>(logits.size());
  if (n == 0 || !ops.is_bounded(logits.data(), n)) {
    return internal_error("a logit is NaN or infinite");
  }
  scratch.maxima.resize(static_cast<size_t>(chunk_count(n)));
  ops.maxima_of(logits.data(), n, scratch.maxima.data());
  const float max = *std::max_element(scratch.maxima.begin(), scratch.maxima.end());
  if (max == -std::numeric_limits<float>::infinity()) {
    return internal_error("every logit is -infinity");
  }
  scratch.weights.resize(logits.size());
  scratch.block_sums.resize(static_cast<size_t>(block_count(n)));
  ops.weigh(logits.data(), n, max, scratch.weights.data(), scratch.block_sums.data());
  RowLogprobs out;
  out.log_sum_exp = static_cast<double>(max) + natural_log(sum_in_order(scratch.block_sums));
  if (top > 0) {
    select_top(logits, scratch.maxima, static_cast<size_t>(top), scratch);
    for (const Candidate& candidate : scratch.candidates) {
      out.top.push_back({candidate.id, log_probability(candidate.value, out.log_sum_exp)});
    }
  }
  return out;
}

TokenLogprobs logprobs_of(RowLogprobs row, float logit) {
  return {log_probability(logit, row.log_sum_exp), std::move(row.top)};
}

Result<TokenLogprobs> token_logprobs(std::span<const float> logits, TokenId id, int top,
                                     Scratch& scratch) {
  BATON_CHECK(id >= 0 && static_cast<size_t>(id) < logits.size(), "the token is not in the row");
  BATON_ASSIGN_OR_RETURN(RowLogprobs row, row_logprobs(logits, top, scratch));
  TokenLogprobs out = logprobs_of(std::move(row), logits[static_cast<size_t>(id)]);
  out.rank = 1 + more_likely(logits, static_cast<size_t>(id));
  return out;
}

}  // namespace baton::sampling
