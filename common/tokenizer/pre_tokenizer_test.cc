#include "common/tokenizer/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace baton::tokenizer {
namespace {

using testing::ElementsAre;

std::vector<std::string> pieces(PreTokenizer pre, std::string_view text) {
  std::vector<std::string> found;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = next_piece_end(pre, text, begin);
    found.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return found;
}

TEST(PreTokenizerTest, KnowsItsNames) {
  EXPECT_EQ(pre_tokenizer_by_name("gpt-2"), PreTokenizer::kGpt2);
  EXPECT_EQ(pre_tokenizer_by_name("smollm"), PreTokenizer::kSmolLm);
  EXPECT_EQ(pre_tokenizer_by_name("llama-bpe"), PreTokenizer::kLlamaBpe);
  EXPECT_EQ(pre_tokenizer_by_name("qwen2"), PreTokenizer::kQwen2);
  EXPECT_EQ(pre_tokenizer_by_name("tekken"), PreTokenizer::kTekken);
  EXPECT_EQ(pre_tokenizer_by_name("gpt-4o"), PreTokenizer::kGpt4o);
  EXPECT_EQ(pre_tokenizer_by_name("llama4"), PreTokenizer::kGpt4o);
  EXPECT_EQ(pre_tokenizer_by_name("deepseek-v3"), PreTokenizer::kDeepSeekV3);
  EXPECT_EQ(pre_tokenizer_by_name("default"), std::nullopt);
  EXPECT_EQ(pre_tokenizer_by_name(""), std::nullopt);
  EXPECT_EQ(supported_pre_tokenizers(),
            "deepseek-v3, gpt-2, gpt-4o, llama-bpe, llama4, qwen2, smollm, tekken");
}

TEST(PreTokenizerTest, Gpt4oSplitsWhereCaseRises) {
  EXPECT_THAT(pieces(PreTokenizer::kGpt4o, "camelCase HTMLPage's 12345//\n x"),
              ElementsAre("camel", "Case", " HTMLPage's", " ", "123", "45", "//\n", " x"));
  EXPECT_THAT(pieces(PreTokenizer::kTekken, "camelCase it's 123"),
              ElementsAre("camel", "Case", " it", "'s", " ", "1", "2", "3"));
}

TEST(PreTokenizerTest, DeepSeekV3CutsOffNumbersAndEastAsianText) {
  EXPECT_THAT(pieces(PreTokenizer::kDeepSeekV3, "pi=3.14159 你好world 'tis"),
              ElementsAre("pi", "=", "3", ".", "141", "59", " ", "你好", "world", " '", "tis"));
  // What nothing matches is a piece up to where something matches again.
  EXPECT_THAT(pieces(PreTokenizer::kDeepSeekV3,
                     "\x01\x01\x01"
                     "a\x01"),
              ElementsAre("\x01\x01",
                          "\x01"
                          "a",
                          "\x01"));
}

TEST(PreTokenizerTest, Gpt2SplitsWordsNumbersAndMarks) {
  EXPECT_THAT(
      pieces(PreTokenizer::kGpt2, "I'm 27.5  years\n old's 'S"),
      ElementsAre("I", "'m", " 27", ".", "5", " ", " years", "\n", " old", "'s", " '", "S"));
}

TEST(PreTokenizerTest, SmolLmIsolatesDigitsBeforeItLooksAtSpaces) {
  EXPECT_THAT(pieces(PreTokenizer::kSmolLm, "a  12 b"), ElementsAre("a", "  ", "1", "2", " b"));
  EXPECT_THAT(pieces(PreTokenizer::kGpt2, "a  12 b"), ElementsAre("a", " ", " 12", " b"));
}

TEST(PreTokenizerTest, LlamaTakesThreeDigitsAndQwenOne) {
  EXPECT_THAT(pieces(PreTokenizer::kLlamaBpe, " 12345"), ElementsAre(" ", "123", "45"));
  EXPECT_THAT(pieces(PreTokenizer::kQwen2, " 123"), ElementsAre(" ", "1", "2", "3"));
}

TEST(PreTokenizerTest, LlamaKeepsNewlinesWithMarksAndWithSpaces) {
  EXPECT_THAT(pieces(PreTokenizer::kLlamaBpe, "a;\n\n  b \n\n  \tc(d 'LL"),
              ElementsAre("a", ";\n\n", " ", " b", " \n\n", "  ", "\tc", "(d", " '", "LL"));
  EXPECT_THAT(pieces(PreTokenizer::kLlamaBpe, "I'LL'\u017Fx"),
              ElementsAre("I", "'LL", "'\u017F", "x"));
}

TEST(PreTokenizerTest, InvalidBytesCountAsMarks) {
  EXPECT_THAT(pieces(PreTokenizer::kGpt2, "a\xFF\xC3 b"), ElementsAre("a", "\xFF\xC3", " b"));
  EXPECT_THAT(pieces(PreTokenizer::kLlamaBpe, "\xFF\xFF\xE4\xB8"), ElementsAre("\xFF\xFF\xE4\xB8"));
}

TEST(PreTokenizerTest, PiecesCoverAnyBytesWithoutGaps) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string text(random() % 24, '\0');
    for (char& c : text) {
      c = static_cast<char>(random() % 4 == 0 ? random() : " a1\n'!\r"[random() % 7]);
    }
    for (const auto pre : {PreTokenizer::kGpt2, PreTokenizer::kSmolLm, PreTokenizer::kLlamaBpe,
                           PreTokenizer::kQwen2}) {
      for (size_t begin = 0; begin < text.size();) {
        const size_t end = next_piece_end(pre, text, begin);
        ASSERT_GT(end, begin);
        ASSERT_LE(end, text.size());
        begin = end;
      }
    }
  }
}

}  // namespace
}  // namespace baton::tokenizer
