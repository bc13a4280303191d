#include "common/tokenizer/load_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/tokenizer/test_vocabulary.h"

namespace baton::tokenizer {
namespace {

TEST(LoadTokenizerTest, ReadsAGgufFile) {
  const auto loaded = load_tokenizer(BATON_SOURCE_DIR "/models/smollm2-135m-instruct-q4_1.gguf");
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  EXPECT_EQ(loaded->encode("Hello world"), smollm2_tokenizer().encode("Hello world"));
}

TEST(LoadTokenizerTest, ReadsAFolder) {
  const auto loaded = load_tokenizer(BATON_SOURCE_DIR "/tests/data/tokenizer/tiny/gemma");
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  EXPECT_EQ(loaded->kind(), VocabularyKind::kSentencePiece);
}

TEST(LoadTokenizerTest, NamesWhatIsNotThere) {
  EXPECT_EQ(load_tokenizer("/nonexistent.gguf").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(load_tokenizer(BATON_SOURCE_DIR "/common/base").status().to_string(),
            "not_found: " BATON_SOURCE_DIR "/common/base has no tokenizer.json");
}

}  // namespace
}  // namespace baton::tokenizer
