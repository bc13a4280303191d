#include "common/sampling/params.h"

#include <cmath>
#include <string>

namespace baton::sampling {
namespace {

// NaN fails both comparisons.
bool within(float value, float low, float high) { return value >= low && value <= high; }

Status out_of_range(std::string_view field, std::string_view rule) {
  return invalid_argument(std::string(field) + " must be " + std::string(rule));
}

Status validate_ids(std::string_view field, const std::vector<TokenId>& ids, int vocab_size,
                    size_t most = kMaxStopTokens) {
  if (ids.size() > most) {
    return out_of_range(field, "at most " + std::to_string(most) + " token ids");
  }
  for (const TokenId id : ids) {
    if (id < 0 || id >= vocab_size) {
      return out_of_range(
          field, "token ids in [0, " + std::to_string(vocab_size) + "), not " + std::to_string(id));
    }
  }
  return {};
}

Status validate_bias(const SamplingParams& params, int vocab_size) {
  if (params.logit_bias.size() > kMaxLogitBias) {
    return out_of_range("logit_bias", "at most " + std::to_string(kMaxLogitBias) + " entries");
  }
  for (const auto& [id, bias] : params.logit_bias) {
    if (id < 0 || id >= vocab_size) {
      return out_of_range("logit_bias", "for token ids in [0, " + std::to_string(vocab_size) +
                                            "), not " + std::to_string(id));
    }
    if (!within(bias, -100.0f, 100.0f)) {
      return out_of_range("logit_bias", "in [-100, 100]");
    }
  }
  return {};
}

Status validate_bad_words(const SamplingParams& params, int vocab_size) {
  if (params.bad_words.size() > kMaxBadWords) {
    return out_of_range("bad_words", "at most " + std::to_string(kMaxBadWords) + " words");
  }
  for (const std::vector<TokenId>& word : params.bad_words) {
    if (word.empty()) {
      return out_of_range("bad_words", "words of at least one token");
    }
    BATON_RETURN_IF_ERROR(validate_ids("bad_words", word, vocab_size, kMaxBadWordTokens));
  }
  return {};
}

Status validate_lengths(const SamplingParams& params) {
  if (params.min_tokens < 0) {
    return out_of_range("min_tokens", "at least 0");
  }
  if (params.max_tokens < 0) {
    return out_of_range("max_tokens", "at least 0");
  }
  if (params.max_tokens > 0 && params.min_tokens > params.max_tokens) {
    return out_of_range("min_tokens", "at most max_tokens");
  }
  return {};
}

}  // namespace

Status validate(const SamplingParams& params, int vocab_size) {
  if (!within(params.temperature, 0.0f, 2.0f)) {
    return out_of_range("temperature", "in [0, 2]");
  }
  if (!within(params.top_p, 0.0f, 1.0f)) {
    return out_of_range("top_p", "in [0, 1]");
  }
  if (!within(params.min_p, 0.0f, 1.0f)) {
    return out_of_range("min_p", "in [0, 1]");
  }
  if (params.top_k < -1) {
    return out_of_range("top_k", "at least -1");
  }
  if (!(params.repetition_penalty > 0.0f) || !std::isfinite(params.repetition_penalty)) {
    return out_of_range("repetition_penalty", "finite and greater than 0");
  }
  if (!within(params.presence_penalty, -2.0f, 2.0f)) {
    return out_of_range("presence_penalty", "in [-2, 2]");
  }
  if (!within(params.frequency_penalty, -2.0f, 2.0f)) {
    return out_of_range("frequency_penalty", "in [-2, 2]");
  }
  if (params.logprobs < -1 || params.logprobs > kMaxTopLogprobs) {
    return out_of_range("logprobs", "in [-1, " + std::to_string(kMaxTopLogprobs) + "]");
  }
  BATON_RETURN_IF_ERROR(validate_lengths(params));
  BATON_RETURN_IF_ERROR(validate_bias(params, vocab_size));
  BATON_RETURN_IF_ERROR(
      validate_ids("allowed_token_ids", params.allowed_token_ids, vocab_size, kMaxAllowedTokens));
  BATON_RETURN_IF_ERROR(validate_bad_words(params, vocab_size));
  BATON_RETURN_IF_ERROR(validate_ids("stop_token_ids", params.stop_token_ids, vocab_size));
  return validate_ids("end_ids", params.end_ids, vocab_size);
}

std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
  }
  return "";
}

}  // namespace baton::sampling
