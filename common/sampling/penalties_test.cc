#include "common/sampling/penalties.h"

#include <gtest/gtest.h>

#include <vector>

namespace baton::sampling {
namespace {

TEST(PenaltiesTest, AreWantedOnlyWhenAskedFor) {
  SamplingParams params;
  EXPECT_FALSE(Penalties::wanted(params));
  params.frequency_penalty = 0.1f;
  EXPECT_TRUE(Penalties::wanted(params));
}

TEST(PenaltiesTest, RepetitionTouchesPromptAndOutputOnce) {
  SamplingParams params;
  params.repetition_penalty = 2.0f;
  const std::vector<TokenId> prompt = {0, 0, 1, 99, -5};
  const std::vector<TokenId> output = {2, 2, 0};
  const Penalties penalties(params, prompt, output, 5);
  std::vector<float> logits = {4.0f, -4.0f, 1.0f, 4.0f, -4.0f};
  penalties.apply(logits);
  EXPECT_EQ(logits, (std::vector<float>{2.0f, -8.0f, 0.5f, 4.0f, -4.0f}));
}

TEST(PenaltiesTest, PresenceAndFrequencySeeTheOutputOnly) {
  SamplingParams params;
  params.presence_penalty = 0.5f;
  params.frequency_penalty = 0.25f;
  const std::vector<TokenId> prompt = {0, 1};
  const std::vector<TokenId> output = {2, 2, 2, 3};
  Penalties penalties(params, prompt, output, 5);
  std::vector<float> logits(5, 1.0f);
  penalties.apply(logits);
  EXPECT_EQ(logits, (std::vector<float>{1.0f, 1.0f, -0.25f, 0.25f, 1.0f}));
  penalties.count_output(4);
  logits.assign(5, 1.0f);
  penalties.apply(logits);
  EXPECT_EQ(logits[4], 0.25f);
}

}  // namespace
}  // namespace baton::sampling
