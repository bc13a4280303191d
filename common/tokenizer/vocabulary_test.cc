#include "common/tokenizer/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton::tokenizer {
namespace {

using testing::HasSubstr;

TEST(VocabularyTest, FindsTokensByTextAndNormalOnesByBytes) {
  const std::vector<int32_t> types = {1, 1, 3, 4, 5, 2, 1};
  auto vocabulary = Vocabulary::create(VocabularyKind::kByteLevel,
                                       {"Ġa", "b", "<|x|>", "b", "[PAD]", "<unk>", "一"}, types);
  ASSERT_TRUE(vocabulary.ok());
  EXPECT_EQ(vocabulary->size(), 7u);
  EXPECT_EQ(vocabulary->bytes(0), " a");
  EXPECT_EQ(vocabulary->text(0), "Ġa");
  EXPECT_EQ(vocabulary->find_bytes(" a"), 0);
  EXPECT_EQ(vocabulary->find_text("Ġa"), 0);
  EXPECT_EQ(vocabulary->find_bytes("<|x|>"), kNoToken);  // no normal token
  EXPECT_EQ(vocabulary->find_text("<|x|>"), 2);
  EXPECT_EQ(vocabulary->bytes(2), "<|x|>");
  EXPECT_EQ(vocabulary->find_text("b"), 1);  // the first of two
  EXPECT_EQ(vocabulary->bytes(4), "");       // unused
  EXPECT_EQ(vocabulary->bytes(6), "一");     // not of the alphabet: itself
  EXPECT_EQ(vocabulary->type(5), TokenType::kUnknown);
  EXPECT_EQ(vocabulary->find_bytes(""), kNoToken);
  EXPECT_EQ(vocabulary->find_text("c"), kNoToken);
  EXPECT_TRUE(vocabulary->contains(6));
  EXPECT_FALSE(vocabulary->contains(7));
  EXPECT_FALSE(vocabulary->contains(-1));
}

TEST(VocabularyTest, RefusesWhatContradictsItself) {
  EXPECT_THAT(Vocabulary::create(VocabularyKind::kByteLevel, {}, {}).status().message(),
              HasSubstr("0 tokens"));
  const std::vector<int32_t> one = {1};
  EXPECT_THAT(Vocabulary::create(VocabularyKind::kByteLevel, {"a", "b"}, one).status().message(),
              HasSubstr("2 tokens but 1 token types"));
  for (const int32_t type : {0, 6, -1}) {
    const std::vector<int32_t> types = {1, type};
    const auto status = Vocabulary::create(VocabularyKind::kByteLevel, {"a", "b"}, types).status();
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_THAT(status.message(), HasSubstr("token 1 has type " + std::to_string(type)));
  }
}

TEST(VocabularyTest, SentencePieceWritesSpacesAsMarksAndHasByteTokens) {
  const std::vector<int32_t> types = {1, 6, 4, 3};
  auto vocabulary =
      Vocabulary::create(VocabularyKind::kSentencePiece, {"▁a", "<0x0A>", "▁▁", "<s>"}, types);
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status().to_string();
  EXPECT_EQ(vocabulary->bytes(0), " a");
  EXPECT_EQ(vocabulary->find_bytes(" a"), 0);
  EXPECT_EQ(vocabulary->bytes(1), "\n");
  EXPECT_EQ(vocabulary->find_bytes("\n"), kNoToken);  // no normal token
  EXPECT_EQ(vocabulary->bytes(2), "  ");
  EXPECT_EQ(vocabulary->text(2), "▁▁");
  const std::vector<int32_t> byte = {6};
  for (const char* text : {"<0x0>", "<0xGG>", "x", "<0x0G>", "<0x00}"}) {
    EXPECT_THAT(Vocabulary::create(VocabularyKind::kSentencePiece, {text}, byte).status().message(),
                HasSubstr("has type 6 byte, but is not written <0xNN>"));
  }
}

}  // namespace
}  // namespace baton::tokenizer
