#include "router/api/choice_stream.h"

#include <gtest/gtest.h>

#include "common/base/random.h"
#include "router/router_fixture.h"

namespace baton::router {
namespace {

using wire::FinishReason;

class ChoiceStreamTest : public testing::Test {
 protected:
  std::vector<TokenId> ids(std::string_view text) const { return tokenizer_.encode(text); }

  // Feeds all tokens, the last with `finish`; the deltas' text joined.
  static std::string joined(ChoiceStream& stream, const std::vector<TokenId>& tokens,
                            FinishReason finish) {
    std::string text;
    for (size_t i = 0; i < tokens.size() && !stream.finished(); ++i) {
      const bool last = i + 1 == tokens.size();
      text += stream.push(tokens[i], nullptr, last ? finish : FinishReason::kNone).text;
    }
    return text;
  }

  const tokenizer::Tokenizer tokenizer_ = tiny_tokenizer();
};

TEST_F(ChoiceStreamTest, MarksTheFirstDeltaOnly) {
  ChoiceStream stream(tokenizer_, 3, {});
  const std::vector<TokenId> tokens = ids("abc");
  const ChoiceDelta first = stream.push(tokens[0], nullptr, FinishReason::kNone);
  EXPECT_TRUE(first.first);
  EXPECT_EQ(first.choice, 3);
  EXPECT_EQ(first.ids, std::vector<TokenId>{tokens[0]});
  EXPECT_TRUE(first.logprobs.empty());
  const wire::TokenLogprob logprob{-0.5f, {}};
  const ChoiceDelta second = stream.push(tokens[0], &logprob, FinishReason::kNone);
  EXPECT_FALSE(second.first);
  ASSERT_EQ(second.logprobs.size(), 1u);
  EXPECT_EQ(second.logprobs[0].logprob, -0.5f);
  EXPECT_EQ(stream.ids().size(), 2u);
}

TEST_F(ChoiceStreamTest, NeverEmitsHalfACharacter) {
  const std::vector<TokenId> tokens = ids("a\U0001F984z");
  ASSERT_GT(tokens.size(), 3u) << "the character is meant to be several tokens";
  ChoiceStream stream(tokenizer_, 0, {});
  std::string text;
  for (const TokenId id : tokens) {
    const ChoiceDelta delta = stream.push(id, nullptr, FinishReason::kNone);
    EXPECT_EQ(delta.text.find("\xEF\xBF\xBD"), std::string::npos);
    text += delta.text;
    EXPECT_TRUE(text == "a" || text == "a\U0001F984" || text == "a\U0001F984z") << text;
  }
  EXPECT_EQ(text, "a\U0001F984z");
}

TEST_F(ChoiceStreamTest, EndsACutCharacterWithOneReplacement) {
  std::vector<TokenId> tokens = ids("a\U0001F984");
  tokens.pop_back();
  ChoiceStream stream(tokenizer_, 0, {});
  EXPECT_EQ(joined(stream, tokens, FinishReason::kLength), "a\xEF\xBF\xBD");
  EXPECT_EQ(stream.finish(), FinishReason::kLength);
}

TEST_F(ChoiceStreamTest, LeavesTheEndTokenOutOfTheTextInEveryMode) {
  const TokenId end = tokenizer_.end_ids()[0];
  for (const bool skip : {true, false}) {
    ChoiceStream::Options options;
    options.skip_special_tokens = skip;
    ChoiceStream stream(tokenizer_, 0, options);
    std::vector<TokenId> tokens = ids("hi");
    tokens.push_back(end);
    EXPECT_EQ(joined(stream, tokens, FinishReason::kStop), "hi");
    EXPECT_EQ(stream.finish(), FinishReason::kStop);
    EXPECT_EQ(stream.ids(), tokens);
  }
}

TEST_F(ChoiceStreamTest, ShowsATokenThatStoppedLikeAStopString) {
  for (const bool include : {false, true}) {
    ChoiceStream::Options options;
    options.include_stop_text = include;
    options.stop_token_ids = {ids("b")[0]};
    ChoiceStream stream(tokenizer_, 0, options);
    EXPECT_EQ(joined(stream, {ids("a")[0], ids("b")[0]}, FinishReason::kStop),
              include ? "ab" : "a");
  }
}

TEST_F(ChoiceStreamTest, ShowsTheLastTokenOfATextThatItsGrammarEnds) {
  ChoiceStream stream(tokenizer_, 0, {});
  EXPECT_EQ(joined(stream, {ids("a")[0], ids("b")[0]}, FinishReason::kStop), "ab");
}

TEST_F(ChoiceStreamTest, ShowsAnEndTokenThatDidNotEndWhenAsked) {
  const TokenId end = tokenizer_.end_ids()[0];
  ChoiceStream::Options options;
  options.skip_special_tokens = false;
  ChoiceStream stream(tokenizer_, 0, options);
  EXPECT_EQ(stream.push(end, nullptr, FinishReason::kNone).text, tokenizer_.token_text(end));
  ChoiceStream hidden(tokenizer_, 0, {});
  EXPECT_EQ(hidden.push(end, nullptr, FinishReason::kNone).text, "");
}

TEST_F(ChoiceStreamTest, EndsAtAStopStringAndKeepsTheTextBefore) {
  ChoiceStream::Options options;
  options.stop = {"or", "wor"};
  ChoiceStream stream(tokenizer_, 0, options);
  const std::string text = joined(stream, ids("hello world"), FinishReason::kLength);
  EXPECT_EQ(text, "hello ");  // "wor" begins earlier, whether or not both are in one token
  EXPECT_EQ(stream.finish(), FinishReason::kStop);
}

TEST_F(ChoiceStreamTest, NamesTheStopStringAndIncludesItWhenAsked) {
  ChoiceStream::Options options;
  options.stop = {"c"};
  options.include_stop_text = true;
  ChoiceStream stream(tokenizer_, 0, options);
  std::string text;
  std::optional<std::string> named;
  for (const TokenId id : ids("ab c d")) {
    const ChoiceDelta delta = stream.push(id, nullptr, FinishReason::kNone);
    text += delta.text;
    named = delta.stop_text;
    if (stream.finished()) {
      break;
    }
  }
  EXPECT_EQ(text, "ab c");
  EXPECT_EQ(named, "c");
}

TEST_F(ChoiceStreamTest, LooksForStopStringsFromMinTokensOn) {
  const std::vector<TokenId> tokens = ids("1 1 1 1 1 1");
  for (const int least : {0, 1, 3, 5}) {
    ChoiceStream::Options options;
    options.stop = {"1"};
    options.min_tokens = least;
    ChoiceStream stream(tokenizer_, 0, options);
    joined(stream, tokens, FinishReason::kLength);
    EXPECT_EQ(stream.finish(), FinishReason::kStop);
    EXPECT_GE(static_cast<int>(stream.ids().size()), least);
    EXPECT_LE(static_cast<int>(stream.ids().size()), std::max(1, least + 1));
  }
}

TEST_F(ChoiceStreamTest, FlushesHeldTextAtTheEnd) {
  ChoiceStream::Options options;
  options.stop = {"end of story"};
  ChoiceStream stream(tokenizer_, 0, options);
  EXPECT_EQ(joined(stream, ids("the end of"), FinishReason::kLength), "the end of");
  EXPECT_EQ(stream.finish(), FinishReason::kLength);
}

TEST_F(ChoiceStreamTest, EndsWithoutAnotherToken) {
  ChoiceStream::Options options;
  options.stop = {"bc"};
  ChoiceStream stream(tokenizer_, 0, options);
  EXPECT_EQ(stream.push(ids("b")[0], nullptr, FinishReason::kNone).text, "");
  const ChoiceDelta end = stream.end(FinishReason::kLength);
  EXPECT_EQ(end.text, "b");
  EXPECT_TRUE(end.ids.empty());
  EXPECT_FALSE(end.first);
  EXPECT_TRUE(stream.finished());
}

TEST_F(ChoiceStreamTest, JoinsToTheTokenizersTextForAnyTokens) {
  SeededRandom random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<TokenId> tokens;
    for (size_t i = 0; i < 1 + random.next() % 30; ++i) {
      tokens.push_back(static_cast<TokenId>(random.next() % tokenizer_.vocab_size()));
    }
    ChoiceStream stream(tokenizer_, 0, {});
    ASSERT_EQ(joined(stream, tokens, FinishReason::kLength), tokenizer_.decode(tokens));
  }
}

}  // namespace
}  // namespace baton::router
