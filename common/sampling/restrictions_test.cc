#include "common/sampling/restrictions.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "common/sampling/sampler.h"

namespace baton::sampling {
namespace {

constexpr float kOut = -std::numeric_limits<float>::infinity();

std::vector<float> applied(const Restrictions& restrictions, size_t vocab) {
  std::vector<float> logits(vocab, 1.0f);
  restrictions.apply(logits);
  return logits;
}

TEST(RestrictionsTest, AreWantedOnlyWhenAskedFor) {
  SamplingParams params;
  EXPECT_FALSE(Restrictions::wanted(params));
  params.allowed_token_ids = {1};
  EXPECT_TRUE(Restrictions::wanted(params));
  params = {};
  params.bad_words = {{1}};
  EXPECT_TRUE(Restrictions::wanted(params));
}

TEST(RestrictionsTest, LeaveTheAllowedTokensAlone) {
  SamplingParams params;
  params.allowed_token_ids = {4, 1, 1, 99, -1};
  const Restrictions restrictions(params, {}, 6);
  EXPECT_EQ(applied(restrictions, 6), (std::vector<float>{kOut, 1, kOut, kOut, 1, kOut}));
  params.allowed_token_ids = {0, 5};
  EXPECT_EQ(applied(Restrictions(params, {}, 6), 6),
            (std::vector<float>{1, kOut, kOut, kOut, kOut, 1}));
}

TEST(RestrictionsTest, ForbidTheTokenThatWouldCompleteABadWord) {
  SamplingParams params;
  params.bad_words = {{3}, {1, 2, 4}, {5, 99}};
  Restrictions restrictions(params, {}, 6);
  EXPECT_EQ(applied(restrictions, 6), (std::vector<float>{1, 1, 1, kOut, 1, 1}));
  for (const TokenId id : {2, 1, 2}) {
    restrictions.take_output(id);
  }
  EXPECT_EQ(applied(restrictions, 6), (std::vector<float>{1, 1, 1, kOut, kOut, 1}));
  restrictions.take_output(0);
  EXPECT_EQ(applied(restrictions, 6), (std::vector<float>{1, 1, 1, kOut, 1, 1}));
}

TEST(RestrictionsTest, AreRebuiltFromTheOutput) {
  SamplingParams params;
  params.bad_words = {{1, 2, 4}, {2, 0}};
  const std::vector<TokenId> output = {5, 5, 1, 2};
  const Restrictions moved(params, output, 6);
  EXPECT_EQ(applied(moved, 6), (std::vector<float>{kOut, 1, 1, 1, kOut, 1}));
}

TokenId sampled(const SamplingParams& params, std::vector<float> row,
                const std::vector<TokenId>& output = {}) {
  SequenceSampler sampler(params, {}, output, 0, static_cast<int>(row.size()));
  Scratch scratch;
  return sampler.sample(row, scratch)->id;
}

TEST(RestrictionsTest, SamplesOnlyWhatIsAllowedAndNeverABadWord) {
  SamplingParams params;
  params.temperature = 0.0f;
  params.allowed_token_ids = {1, 2};
  EXPECT_EQ(sampled(params, {30.0f, 1.0f, 2.0f}), 2);
  params.bad_words = {{0, 2}};
  EXPECT_EQ(sampled(params, {30.0f, 1.0f, 2.0f}), 2);
  EXPECT_EQ(sampled(params, {30.0f, 1.0f, 2.0f}, {0}), 1) << "0, 2 would be complete";
}

TEST(RestrictionsTest, RulesThatLeaveNoTokenAreTheRequestsFault) {
  SamplingParams params;
  params.allowed_token_ids = {1};
  params.bad_words = {{1}};
  SequenceSampler sampler(params, {}, {}, 0, 3);
  Scratch scratch;
  std::vector<float> row = {1.0f, 2.0f, 3.0f};
  EXPECT_EQ(sampler.sample(row, scratch).status().code(), StatusCode::kInvalidArgument);
  SequenceSampler free(SamplingParams(), {}, {}, 0, 3);
  row.assign(3, kOut);
  EXPECT_EQ(free.sample(row, scratch).status().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace baton::sampling
