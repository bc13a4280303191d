#include "common/worker/prompt_scores.h"

#include <gtest/gtest.h>

#include <numeric>

namespace baton::worker {
namespace {

class PromptScoresTest : public testing::Test {
 protected:
  PromptScoresTest() : sequence_(SequenceId{1}, prompt()) {
    body_.prompt = prompt();
    body_.prompt_logprobs = 2;
  }
  static std::vector<TokenId> prompt() {
    std::vector<TokenId> tokens(10);
    std::iota(tokens.begin(), tokens.end(), 20);
    return tokens;
  }
  engine::SequencePlan feed(int count) {
    engine::SequencePlan* entry = sequence_.feed(count, pool_, plan_).value();
    ask_for_scores(body_, sequence_, *entry);
    sequence_.fed(count, pool_, "");
    return *entry;
  }

  kv_cache::BlockPools pool_{
      {.groups = {{}}, .blocks = {8}, .block_tokens = 4, .prefix_cache = true, .root = {}}};
  engine::BatchPlan plan_;
  wire::RunBody body_;
  Sequence sequence_;
};

TEST_F(PromptScoresTest, EveryChunkScoresTheTokensThatFollowItsRows) {
  engine::SequencePlan entry = feed(6);
  EXPECT_EQ(entry.logits, engine::LogitsWanted::kAll);
  EXPECT_EQ(entry.score, (std::vector<TokenId>{21, 22, 23, 24, 25, 26}));
  EXPECT_EQ(entry.score_top, 2);
  entry = feed(4);
  EXPECT_EQ(entry.logits, engine::LogitsWanted::kAll);
  EXPECT_EQ(entry.score, (std::vector<TokenId>{27, 28, 29})) << "nothing follows the last";
}

TEST_F(PromptScoresTest, OutputIsNotScored) {
  feed(10);
  sequence_.append(7);
  const engine::SequencePlan entry = feed(1);
  EXPECT_EQ(entry.logits, engine::LogitsWanted::kLast);
  EXPECT_TRUE(entry.score.empty());
}

TEST_F(PromptScoresTest, NothingIsScoredUnasked) {
  body_.prompt_logprobs = -1;
  EXPECT_FALSE(wants_prompt_scores(body_));
  EXPECT_EQ(feed(6).logits, engine::LogitsWanted::kNone);
  EXPECT_EQ(feed(4).logits, engine::LogitsWanted::kLast);
}

TEST_F(PromptScoresTest, AMessageNamesThePlaceOfItsFirstToken) {
  const wire::PromptLogprobs message =
      prompt_logprobs(body_, Incarnation{5}, 6, {{-1.5f, {{3, -0.5f}}, 4}, {-0.25f, {}, 1}});
  EXPECT_EQ(message.key, body_.key);
  EXPECT_EQ(message.from, Incarnation{5});
  EXPECT_EQ(message.first, 7u);
  ASSERT_EQ(message.logprobs.size(), 2u);
  EXPECT_EQ(message.logprobs[0].logprob, -1.5f);
  EXPECT_EQ(message.logprobs[0].rank, 4);
  EXPECT_EQ(message.logprobs[0].top, (std::vector<std::pair<TokenId, float>>{{3, -0.5f}}));
}

}  // namespace
}  // namespace baton::worker
