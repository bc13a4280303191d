#include "common/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "common/tokenizer/test_vocabulary.h"

namespace baton::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr TokenId kHello = 259, kSpaceHello = 261, kBos = 262, kImEnd = 263, kEndOfText = 264,
                  kThink = 265;

Tokenizer small_tokenizer() { return std::move(*Tokenizer::create(small_vocabulary())); }

Status status_of(VocabularySpec spec) { return Tokenizer::create(std::move(spec)).status(); }

TEST(TokenizerTest, EncodesWordsAndDecodesThem) {
  const Tokenizer tokenizer = small_tokenizer();
  EXPECT_THAT(tokenizer.encode("hello hello h"), ElementsAre(kHello, kSpaceHello, 260));
  EXPECT_THAT(tokenizer.encode(""), ElementsAre());
  const std::vector<TokenId> ids = {kHello, kSpaceHello};
  EXPECT_EQ(tokenizer.decode(ids), "hello hello");
  EXPECT_EQ(tokenizer.decode({}), "");
  EXPECT_EQ(tokenizer.vocab_size(), 266u);
}

TEST(TokenizerTest, ReadsControlTokensInTextOnlyWhenAsked) {
  const Tokenizer tokenizer = small_tokenizer();
  EXPECT_THAT(tokenizer.encode("hello<|im_end|>", {.parse_special = true}),
              ElementsAre(kHello, kImEnd));
  const auto as_text = tokenizer.encode("hello<|im_end|>");
  EXPECT_EQ(std::count(as_text.begin(), as_text.end(), kImEnd), 0);
  EXPECT_EQ(tokenizer.decode(as_text), "hello<|im_end|>");
}

TEST(TokenizerTest, ReadsUserDefinedTokensAlways) {
  const Tokenizer tokenizer = small_tokenizer();
  EXPECT_THAT(tokenizer.encode("<think>hello"), ElementsAre(kThink, kHello));
  EXPECT_THAT(tokenizer.encode("<think><|bos|>", {.parse_special = true}),
              ElementsAre(kThink, kBos));
}

TEST(TokenizerTest, PutsBosFirstOnceAndOnlyWhenTheVocabularyAsksForIt) {
  VocabularySpec spec = small_vocabulary();
  EXPECT_FALSE(small_tokenizer().adds_bos());
  EXPECT_THAT(small_tokenizer().encode("hello", {.add_bos = true}), ElementsAre(kHello));
  spec.add_bos = true;
  const auto with_bos = Tokenizer::create(spec);
  ASSERT_TRUE(with_bos.ok());
  EXPECT_THAT(with_bos->encode("hello", {.add_bos = true}), ElementsAre(kBos, kHello));
  EXPECT_THAT(with_bos->encode("hello"), ElementsAre(kHello));
  EXPECT_THAT(with_bos->encode("", {.add_bos = true}), ElementsAre(kBos));
  EXPECT_THAT(with_bos->encode("<|bos|>hello", {.add_bos = true, .parse_special = true}),
              ElementsAre(kBos, kHello));
}

TEST(TokenizerTest, LlamaAddsBosAndLooksUpWholePiecesUnlessTheFileSaysOtherwise) {
  VocabularySpec spec = small_vocabulary();
  spec.pre_tokenizer = "llama-bpe";
  spec.tokens[257] = "hex";  // no merge makes it
  spec.merges = {"h e"};
  const auto llama = Tokenizer::create(spec);
  ASSERT_TRUE(llama.ok()) << llama.status().to_string();
  EXPECT_TRUE(llama->adds_bos());
  EXPECT_THAT(llama->encode("hex"), ElementsAre(257));
  spec.ignore_merges = false;
  spec.add_bos = false;
  const auto plain = Tokenizer::create(spec);
  ASSERT_TRUE(plain.ok());
  EXPECT_FALSE(plain->adds_bos());
  EXPECT_THAT(plain->encode("hex"), ElementsAre(256, 'x'));
}

TEST(TokenizerTest, DecodeHidesControlTokensAndIgnoresIdsOutside) {
  const Tokenizer tokenizer = small_tokenizer();
  const std::vector<TokenId> ids = {kBos, kHello, kThink, -1, 266, 1 << 30, kImEnd};
  EXPECT_EQ(tokenizer.decode(ids), "hello<think>");
  EXPECT_EQ(tokenizer.decode(ids, {.skip_special = false}), "<|bos|>hello<think><|im_end|>");
}

TEST(TokenizerTest, DecodeReplacesInvalidBytesAndCutCharacters) {
  const Tokenizer tokenizer = small_tokenizer();
  const std::vector<TokenId> ids = {0xFF, 'a', 0xE4, 0xB8};
  EXPECT_EQ(tokenizer.decode(ids), "\uFFFDa\uFFFD");
  const std::vector<TokenId> hidden_between = {0xC3, kImEnd, 0xA9};
  EXPECT_EQ(tokenizer.decode(hidden_between), "é");
  EXPECT_EQ(tokenizer.decode(hidden_between, {.skip_special = false}), "\uFFFD<|im_end|>\uFFFD");
}

TEST(TokenizerTest, DescribesTokens) {
  const Tokenizer tokenizer = small_tokenizer();
  EXPECT_EQ(tokenizer.token_bytes(kSpaceHello), " hello");
  EXPECT_EQ(tokenizer.token_text(kSpaceHello), "Ġhello");
  EXPECT_EQ(tokenizer.token_bytes(-1), "");
  EXPECT_EQ(tokenizer.token_text(266), "");
  EXPECT_EQ(tokenizer.find_token("<|im_end|>"), kImEnd);
  EXPECT_EQ(tokenizer.find_token("nothing"), std::nullopt);
  EXPECT_TRUE(tokenizer.is_control(kBos));
  EXPECT_TRUE(tokenizer.is_special(kBos));
  EXPECT_FALSE(tokenizer.is_special(kThink));
  EXPECT_FALSE(tokenizer.is_control(kHello));
  EXPECT_FALSE(tokenizer.is_control(-1));
  EXPECT_FALSE(tokenizer.is_special(266));
  EXPECT_EQ(tokenizer.bos_id(), kBos);
  EXPECT_EQ(tokenizer.eos_id(), kImEnd);
  EXPECT_EQ(tokenizer.padding_id(), std::nullopt);
}

TEST(TokenizerTest, EndIdsAreThoseOfTheFileAndTheKnownTexts) {
  VocabularySpec spec = small_vocabulary();
  EXPECT_THAT(small_tokenizer().end_ids(), ElementsAre(kImEnd, kEndOfText));
  spec.eos_id = std::nullopt;
  spec.eot_id = kThink;
  spec.eom_id = kHello;
  spec.token_types[kEndOfText] = 1;  // a normal token of that text ends nothing
  const auto tokenizer = Tokenizer::create(std::move(spec));
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_THAT(tokenizer->end_ids(), ElementsAre(kHello, kImEnd, kThink));
  EXPECT_TRUE(tokenizer->is_end(kImEnd));
  EXPECT_FALSE(tokenizer->is_end(kEndOfText));
  EXPECT_FALSE(tokenizer->is_end(-1));
}

TEST(TokenizerTest, RefusesUnknownModelsAndPreTokenizersByName) {
  VocabularySpec spec = small_vocabulary();
  spec.model = "bert";
  EXPECT_EQ(status_of(spec).to_string(),
            "unsupported: tokenizer: model \"bert\" is not supported; supported: gpt2 "
            "(byte-level BPE), llama (SentencePiece BPE)");
  spec.model = "llama";
  EXPECT_EQ(status_of(spec).to_string(),
            "unsupported: tokenizer: pre-tokenizer \"gpt-2\" is not supported with model llama; "
            "supported: default");
  spec.model = "gpt2";
  spec.pre_tokenizer = "falcon";
  EXPECT_EQ(status_of(spec).to_string(),
            "unsupported: tokenizer: pre-tokenizer \"falcon\" is not supported; supported: "
            "deepseek-v3, gpt-2, gpt-4o, llama-bpe, llama4, qwen2, smollm, tekken");
}

TEST(TokenizerTest, RefusesIdsOutsideTheVocabularyByKey) {
  const auto with = [](std::optional<TokenId> VocabularySpec::* member, TokenId id) {
    VocabularySpec spec = small_vocabulary();
    spec.*member = id;
    return status_of(std::move(spec));
  };
  EXPECT_EQ(with(&VocabularySpec::bos_id, 266).to_string(),
            "invalid_argument: tokenizer: bos_token_id is 266, but the vocabulary has 266 tokens");
  EXPECT_THAT(with(&VocabularySpec::eos_id, -1).message(), HasSubstr("eos_token_id is -1"));
  EXPECT_THAT(with(&VocabularySpec::eot_id, 266).message(), HasSubstr("eot_token_id"));
  EXPECT_THAT(with(&VocabularySpec::eom_id, 266).message(), HasSubstr("eom_token_id"));
  EXPECT_THAT(with(&VocabularySpec::unknown_id, 266).message(), HasSubstr("unknown_token_id"));
  EXPECT_THAT(with(&VocabularySpec::padding_id, 266).message(), HasSubstr("padding_token_id"));
}

TEST(TokenizerTest, RefusesBrokenVocabulariesAndMerges) {
  VocabularySpec spec = small_vocabulary();
  spec.merges.push_back("z z");
  EXPECT_EQ(status_of(spec).code(), StatusCode::kInvalidArgument);
  spec = small_vocabulary();
  spec.tokens.clear();
  EXPECT_EQ(status_of(spec).code(), StatusCode::kInvalidArgument);
}

TEST(TokenizerTest, ManyThreadsMayUseOne) {
  const Tokenizer tokenizer = small_tokenizer();
  const std::string text = "hello hello <think> it's 12 " + std::string(300, 'l');
  const auto expected = tokenizer.encode(text);
  std::vector<int> equal(4, 0);
  {
    std::vector<std::jthread> threads;
    for (int& count : equal) {
      threads.emplace_back([&] {
        for (int round = 0; round < 50; ++round) {
          const auto ids = tokenizer.encode(text);
          count += ids == expected && tokenizer.decode(ids) == text ? 1 : 0;
        }
      });
    }
  }
  EXPECT_THAT(equal, testing::Each(50));
}

}  // namespace
}  // namespace baton::tokenizer
