#include "common/grammar/matcher.h"

#include <gtest/gtest.h>

#include <string>

#include "common/grammar/grammar_fixture.h"

namespace baton::grammar {
namespace {

constexpr TokenId kEnd = 256;  // empty: no text contains it

std::shared_ptr<Recognizer> recognizer_of(const Source& source, Recognizer::Limits limits = {}) {
  return std::make_shared<Recognizer>(std::move(*compile(source)), byte_vocabulary({"", "ye"}),
                                      limits);
}

std::string allowed(Matcher& matcher) {
  const auto mask = matcher.allowed();
  if (!mask.ok()) {
    return mask.status().to_string();
  }
  std::string out;
  for (size_t i = 0; i < 258; ++i) {
    if (((*mask)->words[i / 64] >> (i % 64) & 1) != 0) {
      out += i == 257 ? "<ye>" : std::string(1, static_cast<char>(i));
    }
  }
  return out + (matcher.may_end() ? "<end>" : "");
}

TEST(MatcherTest, AllowsOnlyWhatTheGrammarDoes) {
  Matcher matcher(recognizer_of({Kind::kChoice, {"yes", "yesterday", "no"}}));
  EXPECT_EQ(allowed(matcher), "ny<ye>");
  EXPECT_TRUE(matcher.accept(257).ok());
  EXPECT_EQ(allowed(matcher), "s");
  EXPECT_TRUE(matcher.accept('s').ok());
  EXPECT_TRUE(matcher.may_end());
  EXPECT_FALSE(matcher.must_end());
  EXPECT_EQ(allowed(matcher), "t<end>");
  for (const char c : std::string("terday")) {
    EXPECT_TRUE(matcher.accept(c).ok());
  }
  EXPECT_TRUE(matcher.must_end());
  EXPECT_EQ(allowed(matcher), "<end>");
}

TEST(MatcherTest, StaysWrongAfterATokenThatDoesNotFit) {
  Matcher matcher(recognizer_of({Kind::kRegex, {"ab"}}));
  EXPECT_EQ(matcher.accept('b').code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(matcher.allowed().status().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(matcher.must_end());
  Matcher other(recognizer_of({Kind::kRegex, {"ab"}}));
  EXPECT_EQ(other.accept(kEnd).code(), StatusCode::kInvalidArgument);
}

TEST(MatcherTest, GoesOnWhenItsPlaceWasForgotten) {
  Recognizer::Limits limits;
  limits.places = 40;
  const auto recognizer =
      recognizer_of({Kind::kEbnf, {"root ::= \"(\" root \")\" | [a-z]"}}, limits);
  Matcher matcher(recognizer);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(matcher.accept('(').ok());
  }
  Matcher other(recognizer);
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(other.accept('(').ok());
    allowed(other);
  }
  EXPECT_EQ(allowed(matcher), "(abcdefghijklmnopqrstuvwxyz");
  EXPECT_TRUE(matcher.accept('x').ok());
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(allowed(matcher), ")");
    EXPECT_TRUE(matcher.accept(')').ok());
  }
  EXPECT_TRUE(matcher.must_end());
}

TEST(MatcherTest, AVocabularyThatCannotGoOnIsAnError) {
  const auto vocabulary = std::make_shared<VocabularyTrie>(
      2, [](TokenId id) -> std::string_view { return id == 0 ? "a" : "b"; });
  Matcher matcher(
      std::make_shared<Recognizer>(std::move(*compile({Kind::kRegex, {"ac"}})), vocabulary));
  EXPECT_TRUE(matcher.accept(0).ok());
  EXPECT_EQ(matcher.allowed().status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace baton::grammar
