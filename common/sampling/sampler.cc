#include "common/sampling/sampler.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/device/compute_team.h"
#include "common/grammar/matcher.h"
#include "common/sampling/candidates.h"
#include "common/sampling/natural_log.h"
#include "common/sampling/penalties.h"
#include "common/sampling/philox.h"
#include "common/sampling/restrictions.h"
#include "common/sampling/row_ops.h"

namespace baton::sampling {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();
// How many candidates top-p tries to make do with before it sorts the vocabulary.
constexpr size_t kTopPTries[] = {128, 1024};
// A try that reaches less of the target than this is not followed by a larger one.
constexpr double kHopeless = 0.25;

bool contains(const std::vector<TokenId>& ids, TokenId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

void mask(std::span<float> logits, const std::vector<TokenId>& ids) {
  for (const TokenId id : ids) {
    if (id >= 0 && static_cast<size_t>(id) < logits.size()) {
      logits[static_cast<size_t>(id)] = kMasked;
    }
  }
}

TokenId first_of_maximum(std::span<const float> row, const Scratch& scratch, float max) {
  const auto chunk = std::find(scratch.maxima.begin(), scratch.maxima.end(), max);
  const size_t begin = static_cast<size_t>(chunk - scratch.maxima.begin()) * kChunk;
  const auto at = std::find(row.begin() + static_cast<std::ptrdiff_t>(begin), row.end(), max);
  return static_cast<TokenId>(at - row.begin());
}

// exp(value - max) of the candidates, in order, into scratch.weights.
void weigh_candidates(float max, Scratch& scratch) {
  const size_t n = scratch.candidates.size();
  // The values wait in the array's second half.
  scratch.weights.resize(2 * n);
  scratch.block_sums.resize(static_cast<size_t>(block_count(static_cast<int>(n))));
  float* values = scratch.weights.data() + n;
  for (size_t i = 0; i < n; ++i) {
    values[i] = scratch.candidates[i].value;
  }
  row_ops(scratch.isa)
      .weigh(values, static_cast<int>(n), max, scratch.weights.data(), scratch.block_sums.data());
  scratch.weights.resize(n);
}

// One row on its way through temperature, truncation and draw.
struct Row {
  std::span<const float> logits;  // divided by the temperature
  float max;
  const SamplingParams& params;
  double u;
};

TokenId draw_sorted(const Row& row, double total, Scratch& scratch) {
  size_t kept = scratch.weights.size();
  if (row.params.top_p < 1.0f) {
    kept = top_p_prefix(scratch.weights, static_cast<double>(row.params.top_p), total, total);
  }
  const std::span<const float> weights(scratch.weights.data(), kept);
  return scratch.candidates[draw_in_order(weights, row.u, total)].id;
}

// With top-k or min-p: everything that they keep is sorted.
TokenId draw_truncated(const Row& row, Scratch& scratch) {
  const float threshold =
      row.params.min_p > 0.0f
          ? row.max + static_cast<float>(natural_log(static_cast<double>(row.params.min_p)))
          : kMasked;
  if (row.params.top_k > 0) {
    select_top(row.logits, scratch.maxima, static_cast<size_t>(row.params.top_k), scratch);
    const auto end = std::find_if(scratch.candidates.begin(), scratch.candidates.end(),
                                  [&](const Candidate& c) { return c.value < threshold; });
    scratch.candidates.erase(end, scratch.candidates.end());
  } else {
    select_from(row.logits, scratch.maxima, threshold, scratch);
  }
  weigh_candidates(row.max, scratch);
  return draw_sorted(row, sum_in_order(scratch.weights), scratch);
}

// Weighs the whole row in place; the sum of its blocks in order.
double weigh_row(const Row& row, Scratch& scratch) {
  const int n = static_cast<int>(row.logits.size());
  scratch.weights.resize(row.logits.size());
  scratch.block_sums.resize(static_cast<size_t>(block_count(n)));
  row_ops(scratch.isa)
      .weigh(row.logits.data(), n, row.max, scratch.weights.data(), scratch.block_sums.data());
  return sum_in_order(scratch.block_sums);
}

// With top-p alone: the total is that of the unfiltered row, and usually few candidates reach p.
TokenId draw_top_p(const Row& row, Scratch& scratch) {
  const double total = weigh_row(row, scratch);
  const double target = static_cast<double>(row.params.top_p) * total;
  for (const size_t count : kTopPTries) {
    if (count >= row.logits.size()) {
      break;
    }
    select_top(row.logits, scratch.maxima, count, scratch);
    weigh_candidates(row.max, scratch);
    const double sum = sum_in_order(scratch.weights);
    if (sum >= target) {
      return draw_sorted(row, total, scratch);
    }
    if (sum < kHopeless * target) {
      break;
    }
  }
  select_top(row.logits, scratch.maxima, row.logits.size(), scratch);
  weigh_candidates(row.max, scratch);
  return draw_sorted(row, total, scratch);
}

TokenId draw(const Row& row, Scratch& scratch) {
  if (row.params.top_k > 0 || row.params.min_p > 0.0f) {
    return draw_truncated(row, scratch);
  }
  if (row.params.top_p < 1.0f) {
    return draw_top_p(row, scratch);
  }
  const double total = weigh_row(row, scratch);
  return static_cast<TokenId>(draw_in_blocks(scratch.weights, scratch.block_sums, row.u, total));
}

}  // namespace

SequenceSampler::SequenceSampler(SamplingParams params, std::span<const TokenId> prompt,
                                 std::span<const TokenId> output_so_far, int choice, int vocab_size,
                                 MakeGrammar grammar)
    : params_(std::move(params)),
      choice_(choice),
      vocab_size_(vocab_size),
      output_count_(static_cast<int>(output_so_far.size())),
      make_grammar_(std::move(grammar)) {
  BATON_CHECK(vocab_size > 0, "an empty vocabulary");
  if (Penalties::wanted(params_)) {
    penalties_ = std::make_unique<Penalties>(params_, prompt, output_so_far, vocab_size);
  }
  if (Restrictions::wanted(params_)) {
    restrictions_ = std::make_unique<Restrictions>(params_, output_so_far, vocab_size);
  }
  if (make_grammar_ != nullptr) {
    grammar_text_.assign(output_so_far.begin(), output_so_far.end());
  }
}

SequenceSampler::~SequenceSampler() = default;
SequenceSampler::SequenceSampler(SequenceSampler&&) noexcept = default;
SequenceSampler& SequenceSampler::operator=(SequenceSampler&&) noexcept = default;

int SequenceSampler::output_count() const { return output_count_; }
const SamplingParams& SequenceSampler::params() const { return params_; }

// The tokens that may follow a whole text. An end token that does not end the choice is no text.
std::vector<TokenId> SequenceSampler::grammar_ends() const {
  std::vector<TokenId> ids = params_.stop_token_ids;
  if (!params_.ignore_eos) {
    ids.insert(ids.end(), params_.end_ids.begin(), params_.end_ids.end());
  }
  return ids;
}

Status SequenceSampler::start_grammar() {
  BATON_ASSIGN_OR_RETURN(auto recognizer, make_grammar_());
  make_grammar_ = nullptr;
  grammar_ = std::make_unique<grammar::Matcher>(std::move(recognizer));
  for (const TokenId id : std::exchange(grammar_text_, {})) {
    // An error stays in the matcher, and allowed() reports it.
    if (ends(id) || !grammar_->accept(id).ok()) {
      break;
    }
  }
  return Status();
}

// Sets what the grammar does not allow to -infinity.
Status SequenceSampler::apply_grammar(std::span<float> logits, device::Isa isa) {
  if (make_grammar_ != nullptr) {
    BATON_RETURN_IF_ERROR(start_grammar());
  }
  if (grammar_ == nullptr) {
    return Status();
  }
  BATON_ASSIGN_OR_RETURN(const auto allowed, grammar_->allowed());
  std::vector<std::pair<TokenId, float>> ends;
  for (const TokenId id : grammar_->may_end() ? grammar_ends() : std::vector<TokenId>()) {
    if (id >= 0 && static_cast<size_t>(id) < logits.size()) {
      ends.emplace_back(id, logits[static_cast<size_t>(id)]);
    }
  }
  // The logits of a model may be more than its tokens.
  const size_t known = std::min(logits.size(), 64 * allowed->words.size());
  row_ops(isa).keep(logits.data(), static_cast<int>(known), allowed->words.data());
  std::ranges::fill(logits.subspan(known), kMasked);
  for (const auto& [id, logit] : ends) {
    logits[static_cast<size_t>(id)] = logit;
  }
  return Status();
}

Status SequenceSampler::process_logits(std::span<float> logits, device::Isa isa) {
  for (const auto& [id, bias] : params_.logit_bias) {
    if (id >= 0 && id < vocab_size_) {
      logits[static_cast<size_t>(id)] += bias;
    }
  }
  if (penalties_) {
    penalties_->apply(logits);
  }
  if (restrictions_) {
    restrictions_->apply(logits);
  }
  if (output_count_ < params_.min_tokens) {
    mask(logits, params_.end_ids);
    mask(logits, params_.stop_token_ids);
  }
  return apply_grammar(logits, isa);
}

Result<TokenId> SequenceSampler::choose(std::span<float> logits, Scratch& scratch) {
  BATON_RETURN_IF_ERROR(process_logits(logits, scratch.isa));
  const bool greedy = params_.temperature < kGreedyTemperature;
  const int n = static_cast<int>(logits.size());
  scratch.maxima.resize(static_cast<size_t>(chunk_count(n)));
  row_ops(scratch.isa)
      .divide_and_maxima(logits.data(), n, greedy ? 1.0f : params_.temperature,
                         scratch.maxima.data());
  const float max = *std::max_element(scratch.maxima.begin(), scratch.maxima.end());
  if (max == kMasked) {
    const bool restricted =
        restrictions_ != nullptr || grammar_ != nullptr || output_count_ < params_.min_tokens;
    constexpr const char* kMessage =
        "no token is left to sample: every logit is -infinity or masked";
    return restricted ? invalid_argument(kMessage) : internal_error(kMessage);
  }
  if (max == std::numeric_limits<float>::infinity()) {
    return invalid_argument("the logits overflow under the request's penalties and temperature");
  }
  if (greedy) {
    return first_of_maximum(logits, scratch, max);
  }
  const double u = uniform_of(params_.seed, static_cast<uint32_t>(choice_),
                              static_cast<uint32_t>(output_count_), 0);
  return draw({logits, max, params_, u}, scratch);
}

Result<Sampled> SequenceSampler::sample(std::span<float> logits, Scratch& scratch) {
  BATON_CHECK(logits.size() >= static_cast<size_t>(vocab_size_),
              "a row shorter than the vocabulary");
  const device::FlushDenormals flush;
  logits = logits.first(static_cast<size_t>(vocab_size_));
  Sampled out;
  RowLogprobs row_log;
  if (params_.logprobs >= 0) {
    BATON_ASSIGN_OR_RETURN(row_log, row_logprobs(logits, params_.logprobs, scratch));
    scratch.raw.assign(logits.begin(), logits.end());
  } else if (!row_ops(scratch.isa).is_bounded(logits.data(), vocab_size_)) {
    return internal_error("a logit is NaN or infinite");
  }
  BATON_ASSIGN_OR_RETURN(out.id, choose(logits, scratch));
  if (params_.logprobs >= 0) {
    out.logprobs = logprobs_of(std::move(row_log), scratch.raw[static_cast<size_t>(out.id)]);
  }
  out.finish = accept(out.id);
  return out;
}

bool SequenceSampler::ends(TokenId id) const {
  return contains(params_.stop_token_ids, id) ||
         (!params_.ignore_eos && contains(params_.end_ids, id));
}

FinishReason SequenceSampler::finish_of(TokenId id) const {
  if (ends(id) && output_count_ > params_.min_tokens) {
    return FinishReason::kStop;
  }
  // Nothing may follow: an end token would be the only choice.
  if (grammar_ && grammar_->must_end()) {
    return FinishReason::kStop;
  }
  return params_.max_tokens > 0 && output_count_ >= params_.max_tokens ? FinishReason::kLength
                                                                       : FinishReason::kNone;
}

FinishReason SequenceSampler::accept(TokenId id) {
  ++output_count_;
  if (penalties_) {
    penalties_->count_output(id);
  }
  if (restrictions_) {
    restrictions_->take_output(id);
  }
  if (make_grammar_ != nullptr) {
    grammar_text_.push_back(id);
  } else if (grammar_ && !ends(id)) {
    // An error stays in the matcher, and the next sample() reports it.
    (void)grammar_->accept(id).ok();
  }
  return finish_of(id);
}

}  // namespace baton::sampling
