#include "common/tokenizer/incremental_detokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "common/tokenizer/test_vocabulary.h"

namespace baton::tokenizer {
namespace {

TEST(IncrementalDetokenizerTest, HoldsBytesUntilTheCharacterIsWhole) {
  const auto tokenizer = Tokenizer::create(small_vocabulary());
  ASSERT_TRUE(tokenizer.ok());
  IncrementalDetokenizer detokenizer(*tokenizer);
  EXPECT_EQ(detokenizer.feed('a'), "a");
  EXPECT_EQ(detokenizer.feed(0xF0), "");
  EXPECT_EQ(detokenizer.feed(0x9F), "");
  EXPECT_EQ(detokenizer.feed(0x99), "");
  EXPECT_EQ(detokenizer.held_bytes(), 3u);
  EXPECT_EQ(detokenizer.feed(0x82), "🙂");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(IncrementalDetokenizerTest, ReplacesGarbageAtOnceAndACutCharacterAtTheEnd) {
  const auto tokenizer = Tokenizer::create(small_vocabulary());
  ASSERT_TRUE(tokenizer.ok());
  IncrementalDetokenizer detokenizer(*tokenizer);
  EXPECT_EQ(detokenizer.feed(0xFF), "\uFFFD");
  EXPECT_EQ(detokenizer.feed(0xE4), "");
  EXPECT_EQ(detokenizer.feed('a'), "\uFFFDa");
  EXPECT_EQ(detokenizer.feed(0xE4), "");
  EXPECT_EQ(detokenizer.feed(0xB8), "");
  EXPECT_EQ(detokenizer.finish(), "\uFFFD");
  EXPECT_EQ(detokenizer.feed(0x80), "\uFFFD");  // a new stream
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(IncrementalDetokenizerTest, HidesOrShowsControlTokensAsDecodeDoes) {
  const auto tokenizer = Tokenizer::create(small_vocabulary());
  ASSERT_TRUE(tokenizer.ok());
  IncrementalDetokenizer hiding(*tokenizer);
  EXPECT_EQ(hiding.feed(262), "");
  EXPECT_EQ(hiding.feed(-1), "");
  EXPECT_EQ(hiding.feed(265), "<think>");
  IncrementalDetokenizer showing(*tokenizer, {.skip_special = false});
  EXPECT_EQ(showing.feed(262), "<|bos|>");
}

TEST(IncrementalDetokenizerTest, PiecesJoinedEqualDecodeOnRandomIds) {
  const Tokenizer tokenizer = smollm2_tokenizer();
  std::mt19937 random(9);
  for (int round = 0; round < 400; ++round) {
    std::vector<TokenId> ids(random() % 60);
    for (TokenId& id : ids) {
      // Low ids are control tokens and single bytes: those make and break characters.
      id = static_cast<TokenId>(random() % (round % 2 == 0 ? 300 : tokenizer.vocab_size() + 5));
    }
    const DecodeOptions options = {.skip_special = round % 3 != 0};
    IncrementalDetokenizer detokenizer(tokenizer, options);
    std::string joined;
    for (const TokenId id : ids) {
      const std::string piece = detokenizer.feed(id);
      ASSERT_TRUE(is_valid_utf8(piece));
      ASSERT_LE(detokenizer.held_bytes(), 3u);
      joined += piece;
    }
    joined += detokenizer.finish();
    ASSERT_EQ(joined, tokenizer.decode(ids, options));
  }
}

}  // namespace
}  // namespace baton::tokenizer
