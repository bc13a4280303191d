// Compares tiny vocabularies of every kind, read from tokenizer.json and from GGUF files, with the
// answers of the `tokenizers` package; see tests/data/tokenizer/README.md.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/tokenizer/incremental_detokenizer.h"
#include "common/tokenizer/load_tokenizer.h"
#include "common/tokenizer/test_vocabulary.h"

namespace baton::tokenizer {
namespace {

std::string tiny_path(const std::string& name) {
  return std::string(BATON_SOURCE_DIR) + "/tests/data/tokenizer/tiny/" + name;
}

Tokenizer loaded(const std::string& path) {
  auto tokenizer = load_tokenizer(path);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  return std::move(*tokenizer);
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, size_t cut) {
  IncrementalDetokenizer detokenizer(tokenizer, {.skip_special = false});
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i == cut) {  // another one that is fed the same ids goes on alike
      IncrementalDetokenizer other(tokenizer, {.skip_special = false});
      for (size_t k = 0; k < i; ++k) {
        other.feed(ids[k]);
      }
      detokenizer = other;
    }
    text += detokenizer.feed(ids[i]);
  }
  return text + detokenizer.finish();
}

class TinyVocabulariesTest : public testing::TestWithParam<const char*> {};

TEST_P(TinyVocabulariesTest, EveryTextHasTheExpectedIdsAndComesBack) {
  const Tokenizer tokenizer = loaded(tiny_path(GetParam()));
  const std::string name = std::filesystem::path(GetParam()).stem();
  const std::string file = read_test_data("tiny/" + name + ".tsv");
  size_t texts = 0;
  for (const std::string_view line : split_at(file, '\n')) {
    const auto fields = split_at(line, '\t');
    ASSERT_EQ(fields.size(), 4u) << line;
    const std::string text = unescape(fields[0]);
    const std::vector<TokenId> ids = numbers(fields[2]);
    ++texts;
    EXPECT_EQ(tokenizer.encode(text, {.parse_special = true}), ids) << fields[0];
    if (fields[1] == "=") {
      EXPECT_EQ(tokenizer.encode(text), ids) << fields[0];
    }
    const std::string decoded = fields[3] == "=" ? text : unescape(fields[3]);
    EXPECT_EQ(tokenizer.decode(ids, {.skip_special = false}), decoded) << fields[0];
    EXPECT_EQ(streamed(tokenizer, ids, ids.size() / 2), decoded) << fields[0];
  }
  EXPECT_GE(texts, 250u);
}

INSTANTIATE_TEST_SUITE_P(All, TinyVocabulariesTest,
                         testing::Values("gpt2", "smollm", "llama3", "qwen2", "gpt4o", "tekken",
                                         "deepseek_v3", "llama2", "gemma", "mistral", "metaspace",
                                         "smollm.gguf", "llama3.gguf", "gpt4o.gguf", "tekken.gguf",
                                         "deepseek_v3.gguf", "llama2.gguf", "gemma.gguf"),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name) {
                             c = c == '.' ? '_' : c;
                           }
                           return name;
                         });

// What the tokens add to a text is what was in it, byte by byte: grammars, log-probabilities and
// stop strings work on it.
TEST(TinyVocabularyBytesTest, SentencePieceTokensAreTheBytesOfTheText) {
  for (const char* path : {"llama2", "llama2.gguf", "gemma", "gemma.gguf"}) {
    const Tokenizer tokenizer = loaded(tiny_path(path));
    const std::string text = "a  b\n\xE1\xA0\xAE \xF0\x9F\x92\xA9\x01";
    std::string bytes;
    for (const TokenId id : tokenizer.encode(text)) {
      bytes += tokenizer.token_bytes(id);
    }
    const bool has_prefix = std::string_view(path).starts_with("llama2");
    EXPECT_EQ(bytes, (has_prefix ? " " : "") + text) << path;
    EXPECT_EQ(tokenizer.token_bytes(*tokenizer.find_token("<0x0A>")), "\n");
    EXPECT_EQ(tokenizer.token_text(*tokenizer.find_token("▁")), "▁");
    EXPECT_EQ(tokenizer.token_bytes(*tokenizer.find_token("▁")), " ");
    EXPECT_FALSE(tokenizer.is_special(*tokenizer.find_token("<0x0A>")));
  }
}

TEST(TinyVocabularyBytesTest, AnAnswerKeepsItsFirstSpaceATextDoesNot) {
  const Tokenizer tokenizer = loaded(tiny_path("llama2"));
  const auto ids = tokenizer.encode("the");
  EXPECT_EQ(tokenizer.decode(ids), "the");
  EXPECT_EQ(tokenizer.decode(ids, {.continues = true}), " the");
  IncrementalDetokenizer answer(tokenizer, {.continues = true});
  std::string text;
  for (const TokenId id : ids) {
    text += answer.feed(id);
  }
  EXPECT_EQ(text, " the");
  EXPECT_EQ(answer.finish(), "");
  // A byte that is no character yet holds the text back; the end makes it U+FFFD.
  IncrementalDetokenizer cut(tokenizer);
  EXPECT_EQ(cut.feed(*tokenizer.find_token("<0xE4>")), "");
  EXPECT_EQ(cut.held_bytes(), 1u);
  EXPECT_EQ(cut.finish(), "\xEF\xBF\xBD");
}

TEST(TinyVocabularyBytesTest, BosGoesBeforeATextWhereTheFileSaysSo) {
  const Tokenizer llama = loaded(tiny_path("llama2"));
  const TokenId begin = *llama.find_token("<|begin|>");
  EXPECT_TRUE(llama.adds_bos());
  EXPECT_EQ(llama.bos_id(), begin);
  EXPECT_EQ(llama.encode("a", {.add_bos = true}).front(), begin);
  EXPECT_FALSE(loaded(tiny_path("gemma")).adds_bos());
}

TEST(TinyVocabularyBytesTest, WhatIsBeforeATextDecidesAboutItsPrefix) {
  using After = EncodeOptions::After;
  const auto bytes = [](const char* name, After after) {
    const Tokenizer tokenizer = loaded(tiny_path(name));
    std::string all;
    for (const TokenId id : tokenizer.encode("the", {.after = after})) {
      all += tokenizer.token_bytes(id);
    }
    return all;
  };
  EXPECT_EQ(bytes("llama2", After::kNothing), " the");
  EXPECT_EQ(bytes("llama2", After::kSpecialToken), " the");
  EXPECT_EQ(bytes("llama2", After::kText), "the");
  EXPECT_EQ(bytes("mistral", After::kNothing), " the");
  EXPECT_EQ(bytes("mistral", After::kSpecialToken), "the");
  EXPECT_EQ(bytes("mistral", After::kText), "the");
}

}  // namespace
}  // namespace baton::tokenizer
