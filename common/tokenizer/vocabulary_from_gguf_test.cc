#include "common/tokenizer/vocabulary_from_gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "common/tokenizer/test_vocabulary.h"

namespace baton::tokenizer {
namespace {

using model_file::MetadataType;
using model_file::ModelFile;
using testing::ElementsAre;
using testing::HasSubstr;

// A GGUF file that has metadata only.
class FileWriter {
 public:
  void add_string(const std::string& key, const std::string& value) {
    begin(key, MetadataType::kString);
    put_string(value);
  }
  void add_strings(const std::string& key, const std::vector<std::string>& values) {
    begin(key, MetadataType::kArray);
    put(static_cast<uint32_t>(MetadataType::kString));
    put(uint64_t{values.size()});
    for (const auto& value : values) {
      put_string(value);
    }
  }
  void add_f32s(const std::string& key, const std::vector<float>& values) {
    begin(key, MetadataType::kArray);
    put(static_cast<uint32_t>(MetadataType::kF32));
    put(uint64_t{values.size()});
    for (const float value : values) {
      put(value);
    }
  }
  void add_u32(const std::string& key, uint32_t value) {
    begin(key, MetadataType::kU32);
    put(value);
  }
  void add_bool(const std::string& key, bool value) {
    begin(key, MetadataType::kBool);
    put(static_cast<uint8_t>(value));
  }
  std::string bytes() const {
    FileWriter head;
    head.bytes_ = "GGUF";
    head.put(uint32_t{3});
    head.put(uint64_t{0});
    head.put(entries_);
    return head.bytes_ + bytes_;
  }

 private:
  template <typename T>
  void put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void put_string(const std::string& text) {
    put(uint64_t{text.size()});
    bytes_ += text;
  }
  void begin(const std::string& key, MetadataType type) {
    put_string(key);
    put(static_cast<uint32_t>(type));
    ++entries_;
  }

  std::string bytes_;
  uint64_t entries_ = 0;
};

Result<VocabularySpec> read(const FileWriter& writer) {
  const std::string bytes = writer.bytes();
  BATON_ASSIGN_OR_RETURN(const auto file,
                         ModelFile::parse(std::as_bytes(std::span(bytes)), "test.gguf"));
  return vocabulary_from_gguf(file);
}

FileWriter minimal() {
  FileWriter writer;
  writer.add_string("tokenizer.ggml.model", "gpt2");
  writer.add_string("tokenizer.ggml.pre", "qwen2");
  writer.add_strings("tokenizer.ggml.tokens", {"a", "b", "ab"});
  writer.add_strings("tokenizer.ggml.merges", {"a b"});
  return writer;
}

TEST(VocabularyFromGgufTest, ReadsTheDefaultModel) {
  const VocabularySpec spec = smollm2_vocabulary();
  EXPECT_EQ(spec.model, "gpt2");
  EXPECT_EQ(spec.pre_tokenizer, "smollm");
  EXPECT_EQ(spec.tokens.size(), 49152u);
  EXPECT_EQ(spec.merges.size(), 48900u);
  EXPECT_EQ(spec.bos_id, 1);
  EXPECT_EQ(spec.eos_id, 2);
  EXPECT_EQ(spec.unknown_id, 0);
  EXPECT_EQ(spec.padding_id, 2);
  EXPECT_EQ(spec.eot_id, std::nullopt);
  EXPECT_EQ(spec.add_bos, false);
  const Tokenizer tokenizer = smollm2_tokenizer();
  EXPECT_THAT(tokenizer.end_ids(), ElementsAre(0, 2));
  EXPECT_FALSE(tokenizer.adds_bos());
  EXPECT_THAT(tokenizer.chat_template(), HasSubstr("<|im_start|>"));
}

TEST(VocabularyFromGgufTest, ReadsOptionalKeysWhenTheyAreThere) {
  const auto bare = read(minimal());
  ASSERT_TRUE(bare.ok()) << bare.status().to_string();
  EXPECT_EQ(bare->bos_id, std::nullopt);
  EXPECT_EQ(bare->add_bos, std::nullopt);
  EXPECT_EQ(bare->chat_template, "");
  EXPECT_TRUE(bare->token_types.empty());

  FileWriter writer = minimal();
  writer.add_u32("tokenizer.ggml.eot_token_id", 1);
  writer.add_u32("tokenizer.ggml.eom_token_id", 2);
  writer.add_bool("tokenizer.ggml.add_bos_token", true);
  writer.add_string("tokenizer.chat_template", "{{ x }}");
  const auto full = read(writer);
  ASSERT_TRUE(full.ok()) << full.status().to_string();
  EXPECT_EQ(full->eot_id, 1);
  EXPECT_EQ(full->eom_id, 2);
  EXPECT_EQ(full->add_bos, true);
  EXPECT_EQ(full->chat_template, "{{ x }}");
}

TEST(VocabularyFromGgufTest, NamesTheKeyThatIsMissingOrWrong) {
  FileWriter no_merges;
  no_merges.add_string("tokenizer.ggml.model", "gpt2");
  no_merges.add_string("tokenizer.ggml.pre", "qwen2");
  no_merges.add_strings("tokenizer.ggml.tokens", {"a"});
  EXPECT_THAT(read(no_merges).status().message(), HasSubstr("tokenizer.ggml.merges"));
  EXPECT_THAT(read(FileWriter()).status().message(), HasSubstr("tokenizer.ggml.model"));

  FileWriter wrong_type = minimal();
  wrong_type.add_string("tokenizer.ggml.bos_token_id", "1");
  EXPECT_THAT(read(wrong_type).status().message(), HasSubstr("tokenizer.ggml.bos_token_id"));
  FileWriter too_large = minimal();
  too_large.add_u32("tokenizer.ggml.eos_token_id", 0xFFFFFFFF);
  EXPECT_EQ(read(too_large).status().to_string(),
            "invalid_argument: test.gguf: tokenizer.ggml.eos_token_id is 4294967295, which is no "
            "token id");
  FileWriter bad_types = minimal();
  bad_types.add_u32("tokenizer.ggml.token_type", 1);
  EXPECT_THAT(read(bad_types).status().message(), HasSubstr("tokenizer.ggml.token_type"));
}

FileWriter sentence_piece() {
  FileWriter writer;
  writer.add_string("tokenizer.ggml.model", "llama");
  writer.add_strings("tokenizer.ggml.tokens", {"a", "b", "ab"});
  writer.add_f32s("tokenizer.ggml.scores", {-3, -2, -1});
  return writer;
}

TEST(VocabularyFromGgufTest, ReadsSentencePiece) {
  const auto bare = read(sentence_piece());
  ASSERT_TRUE(bare.ok()) << bare.status().to_string();
  EXPECT_THAT(bare->scores, ElementsAre(-3, -2, -1));
  EXPECT_TRUE(bare->merges.empty());
  EXPECT_EQ(bare->spaces.prefix, SpaceRules::Prefix::kEverySegment);
  EXPECT_TRUE(bare->spaces.strip_on_decode);
  EXPECT_FALSE(bare->spaces.remove_extra);

  FileWriter writer = sentence_piece();
  writer.add_string("tokenizer.ggml.pre", "default");
  writer.add_bool("tokenizer.ggml.add_space_prefix", false);
  writer.add_bool("tokenizer.ggml.remove_extra_whitespaces", true);
  const auto full = read(writer);
  ASSERT_TRUE(full.ok()) << full.status().to_string();
  EXPECT_EQ(full->spaces.prefix, SpaceRules::Prefix::kNone);
  EXPECT_FALSE(full->spaces.strip_on_decode);
  EXPECT_TRUE(full->spaces.remove_extra);
}

TEST(VocabularyFromGgufTest, RefusesOtherVocabulariesByKey) {
  FileWriter bert;
  bert.add_string("tokenizer.ggml.model", "bert");
  EXPECT_EQ(read(bert).status().to_string(),
            "unsupported: test.gguf: tokenizer.ggml.model is \"bert\"; supported: gpt2 "
            "(byte-level BPE), llama (SentencePiece BPE)");
  FileWriter mapped = sentence_piece();
  mapped.add_string("tokenizer.ggml.precompiled_charsmap", "x");
  EXPECT_THAT(read(mapped).status().message(), HasSubstr("precompiled_charsmap is set"));
  FileWriter unscored;
  unscored.add_string("tokenizer.ggml.model", "llama");
  unscored.add_strings("tokenizer.ggml.tokens", {"a"});
  EXPECT_THAT(read(unscored).status().message(), HasSubstr("tokenizer.ggml.scores"));
  FileWriter short_scores;
  short_scores.add_string("tokenizer.ggml.model", "llama");
  short_scores.add_strings("tokenizer.ggml.tokens", {"a", "b"});
  short_scores.add_f32s("tokenizer.ggml.scores", {1});
  EXPECT_EQ(read(short_scores).status().to_string(),
            "invalid_argument: test.gguf: tokenizer.ggml.scores has 1 values, but there are 2 "
            "tokens");
}

TEST(VocabularyFromGgufTest, ReadsNamedTemplates) {
  FileWriter writer = minimal();
  writer.add_strings("tokenizer.chat_templates", {"tool_use"});
  EXPECT_THAT(read(writer).status().message(), HasSubstr("tokenizer.chat_template.tool_use"));
  writer.add_string("tokenizer.chat_template.tool_use", "t");
  const auto spec = read(writer);
  ASSERT_TRUE(spec.ok()) << spec.status().to_string();
  EXPECT_THAT(spec->named_chat_templates, ElementsAre(testing::Pair("tool_use", "t")));
}

}  // namespace
}  // namespace baton::tokenizer
