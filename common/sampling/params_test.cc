#include "common/sampling/params.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace baton::sampling {
namespace {

constexpr int kVocab = 100;

struct BadCase {
  const char* message;
  std::function<void(SamplingParams&)> spoil;
};

TEST(ParamsTest, AcceptsDefaultsAndTheEdgesOfEveryRange) {
  EXPECT_TRUE(validate(SamplingParams{}, kVocab).ok());
  SamplingParams p;
  p.temperature = 2.0f;
  p.top_p = 0.0f;
  p.min_p = 1.0f;
  p.top_k = -1;
  p.repetition_penalty = 1e-3f;
  p.presence_penalty = -2.0f;
  p.frequency_penalty = 2.0f;
  p.logit_bias = {{0, -100.0f}, {99, 100.0f}};
  p.stop_token_ids = {0, 99};
  p.end_ids = {99};
  p.min_tokens = 7;
  p.max_tokens = 7;
  p.logprobs = kMaxTopLogprobs;
  EXPECT_TRUE(validate(p, kVocab).ok());
}

TEST(ParamsTest, NamesTheFieldThatIsOutOfRange) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const BadCase cases[] = {
      {"temperature must be in [0, 2]", [&](SamplingParams& p) { p.temperature = nan; }},
      {"temperature must be in [0, 2]", [](SamplingParams& p) { p.temperature = -0.1f; }},
      {"top_p must be in [0, 1]", [](SamplingParams& p) { p.top_p = 1.1f; }},
      {"min_p must be in [0, 1]", [&](SamplingParams& p) { p.min_p = nan; }},
      {"top_k must be at least -1", [](SamplingParams& p) { p.top_k = -2; }},
      {"repetition_penalty must be finite and greater than 0",
       [](SamplingParams& p) { p.repetition_penalty = 0.0f; }},
      {"repetition_penalty must be finite and greater than 0",
       [&](SamplingParams& p) { p.repetition_penalty = inf; }},
      {"presence_penalty must be in [-2, 2]", [](SamplingParams& p) { p.presence_penalty = 2.5f; }},
      {"frequency_penalty must be in [-2, 2]",
       [](SamplingParams& p) { p.frequency_penalty = -3.0f; }},
      {"logprobs must be in [-1, 20]", [](SamplingParams& p) { p.logprobs = 21; }},
      {"min_tokens must be at least 0", [](SamplingParams& p) { p.min_tokens = -1; }},
      {"max_tokens must be at least 0", [](SamplingParams& p) { p.max_tokens = -1; }},
      {"min_tokens must be at most max_tokens",
       [](SamplingParams& p) { p.min_tokens = 3, p.max_tokens = 2; }},
      {"logit_bias must be for token ids in [0, 100), not 100",
       [](SamplingParams& p) { p.logit_bias = {{100, 1.0f}}; }},
      {"logit_bias must be in [-100, 100]",
       [](SamplingParams& p) { p.logit_bias = {{1, 100.5f}}; }},
      {"logit_bias must be at most 4096 entries",
       [](SamplingParams& p) { p.logit_bias.resize(kMaxLogitBias + 1); }},
      {"stop_token_ids must be token ids in [0, 100), not -1",
       [](SamplingParams& p) { p.stop_token_ids = {-1}; }},
      {"stop_token_ids must be at most 1024 token ids",
       [](SamplingParams& p) { p.stop_token_ids.resize(kMaxStopTokens + 1); }},
      {"end_ids must be token ids in [0, 100), not 100",
       [](SamplingParams& p) { p.end_ids = {100}; }},
  };
  for (const BadCase& c : cases) {
    SamplingParams p;
    c.spoil(p);
    EXPECT_EQ(validate(p, kVocab), invalid_argument(c.message));
  }
}

TEST(ParamsTest, NamesFinishReasonsAsTheEndpointDoes) {
  EXPECT_EQ(to_string(FinishReason::kNone), "");
  EXPECT_EQ(to_string(FinishReason::kStop), "stop");
  EXPECT_EQ(to_string(FinishReason::kLength), "length");
}

}  // namespace
}  // namespace baton::sampling
