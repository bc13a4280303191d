#pragma once

// What a request asks of the sampler. Plain data: it crosses the wire with the request, and
// together with prompt and output ids it determines every later token (docs/protocol.md).

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"

namespace baton::sampling {

inline constexpr int kMaxTopLogprobs = 20;
inline constexpr int kMaxLogitBias = 4096;
inline constexpr int kMaxStopTokens = 1024;
inline constexpr size_t kMaxAllowedTokens = 8192;
inline constexpr size_t kMaxBadWords = 1024;
inline constexpr size_t kMaxBadWordTokens = 64;
// Below this temperature sampling is greedy.
inline constexpr float kGreedyTemperature = 1e-5f;

struct SamplingParams {
  float temperature = 1.0f;
  float top_p = 1.0f;               // 0 keeps the most likely token
  float min_p = 0.0f;               // 0 is off
  int top_k = 0;                    // 0 and -1 are off
  float repetition_penalty = 1.0f;  // each distinct token of prompt and output, once
  float presence_penalty = 0.0f;    // output only
  float frequency_penalty = 0.0f;   // output only
  std::vector<std::pair<TokenId, float>> logit_bias;  // added to the logit
  std::vector<TokenId> allowed_token_ids;       // nothing else is sampled; empty: no restriction
  std::vector<std::vector<TokenId>> bad_words;  // token sequences that the output never completes
  std::vector<TokenId> stop_token_ids;
  std::vector<TokenId> end_ids;  // the model's end-of-sequence tokens, filled in by the router
  bool ignore_eos = false;       // end_ids do not end the choice; stop_token_ids still do
  int min_tokens = 0;            // end_ids and stop_token_ids cannot be sampled before
  int max_tokens = 0;            // 0 is no limit
  uint64_t seed = 0;
  int logprobs = -1;  // how many of the most likely tokens to report; -1 reports none

  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

// invalid_argument naming the first field that is out of range, with the range. Every id must lie
// in [0, vocab_size). The sampler stays memory-safe, but promises no meaning, for parameters that
// were not checked.
Status validate(const SamplingParams& params, int vocab_size);

// Values go over the wire and are never renumbered.
enum class FinishReason : uint8_t {
  kNone = 0,    // the choice goes on
  kStop = 1,    // an end or stop token was sampled
  kLength = 2,  // max_tokens reached
};
std::string_view to_string(FinishReason reason);  // "", "stop", "length"

}  // namespace baton::sampling
