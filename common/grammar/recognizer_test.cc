#include "common/grammar/recognizer.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "common/base/random.h"
#include "common/grammar/grammar_fixture.h"

namespace baton::grammar {
namespace {

Automaton automaton_of(Kind kind, const std::string& text) {
  Result<Automaton> out = compile({kind, {text}});
  EXPECT_TRUE(out.ok()) << out.status().to_string();
  return std::move(*out);
}

TEST(RecognizerTest, MasksHaveExactlyTheTokensThatCanFollow) {
  const std::vector<std::string> more = {"tru",  "true", "true,", "\": ",    "\", \"",
                                         "[[",   "]]",   "}}",    "1234",    "-",
                                         "-1.5", " {\"", "null]", "\xC3\xA4"};
  const auto vocabulary = byte_vocabulary(more);
  const Source source{Kind::kJsonSchema, {"{}"}};
  Recognizer recognizer(automaton_of(source.kind, source.texts[0]), vocabulary);
  auto random = SeededRandom(3);
  for (int i = 0; i < 200; ++i) {
    std::string text = sample_text(source, random.next(), 30);
    text.resize(random.next() % (text.size() + 1));
    const auto place = recognizer.advance(recognizer.start(), text);
    ASSERT_TRUE(place->ok()) << text;
    const auto mask = recognizer.mask(**place);
    for (TokenId id = 0; id < vocabulary->vocab_size(); ++id) {
      const bool allowed = recognizer.advance(**place, vocabulary->bytes_of(id))->ok();
      const auto at = static_cast<size_t>(id);
      ASSERT_EQ(((**mask)->words[at / 64] >> (at % 64) & 1) != 0, allowed)
          << text << " + " << vocabulary->bytes_of(id);
    }
  }
}

TEST(RecognizerTest, SaysWhetherTheTextMayOrMustEnd) {
  Recognizer recognizer(automaton_of(Kind::kRegex, "ab?"), byte_vocabulary());
  EXPECT_FALSE(recognizer.start().may_end);
  const auto after_a = **recognizer.advance(recognizer.start(), "a");
  EXPECT_TRUE(after_a.may_end);
  EXPECT_FALSE(after_a.must_end);
  const auto after_b = **recognizer.advance(after_a, "b");
  EXPECT_TRUE(after_b.must_end);
  EXPECT_FALSE((**recognizer.mask(after_b))->any);
  EXPECT_EQ(recognizer.advance(after_b, "b")->status().code(), StatusCode::kInvalidArgument);
}

TEST(RecognizerTest, ForgetsWhenFullAndSaysSo) {
  Recognizer::Limits limits;
  limits.places = 16;
  Recognizer recognizer(automaton_of(Kind::kEbnf, "root ::= \"(\" root \")\" | \"x\""),
                        byte_vocabulary(), limits);
  const auto begin = recognizer.start();
  const auto deep = **recognizer.advance(begin, std::string(40, '('));
  EXPECT_FALSE(recognizer.mask(deep).has_value());
  EXPECT_FALSE(recognizer.advance(begin, "(").has_value());
  EXPECT_TRUE(recognizer.advance(recognizer.start(), "(x)").has_value());
}

TEST(RecognizerTest, TooManyPositionsAreAnError) {
  Recognizer::Limits limits;
  limits.positions_of_place = 50;
  // Every byte may be that of any of the nested rules.
  Recognizer recognizer(
      automaton_of(Kind::kEbnf, "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"a\""),
      byte_vocabulary(), limits);
  const auto place = recognizer.advance(recognizer.start(), std::string(20, 'a'));
  EXPECT_EQ(place->status().code(), StatusCode::kResourceExhausted);
}

TEST(RecognizerTest, WhatItRemembersIsBounded) {
  Recognizer::Limits limits;
  limits.positions = 2'000;
  Recognizer recognizer(automaton_of(Kind::kRegex, ".{0,300}.{0,300}"), byte_vocabulary(), limits);
  auto place = recognizer.start();
  std::string text;
  int forgotten = 0;
  for (int i = 0; i < 200; ++i) {
    text += 'a';
    auto next = recognizer.advance(place, "a");
    if (!next) {
      ++forgotten;
      next = recognizer.advance(recognizer.start(), text);
    }
    if (!next) {
      break;  // this text alone is more than may be remembered
    }
    ASSERT_TRUE(next->ok());
    place = **next;
    (void)recognizer.mask(place);
  }
  EXPECT_GT(forgotten, 0);
}

TEST(RecognizerTest, ManyThreadsShareOne) {
  const Source source{Kind::kJsonObject, {}};
  Result<Automaton> automaton = compile(source);
  Recognizer::Limits limits;
  limits.places = 64;
  Recognizer recognizer(std::move(*automaton), byte_vocabulary(), limits);
  std::vector<std::jthread> threads;
  std::array<int, 4> masks{};
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const auto place = recognizer.advance(recognizer.start(), "{\"a\": [1, {\"b\": ");
        if (place.has_value() && place->ok()) {
          const auto mask = recognizer.mask(**place);
          masks[t] += mask.has_value() && mask->ok() && (**mask)->any ? 1 : 0;
        }
      }
    });
  }
  threads.clear();
  for (const int count : masks) {
    EXPECT_GT(count, 0);
  }
}

}  // namespace
}  // namespace baton::grammar
