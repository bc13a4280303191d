#include "common/tokenizer/vocabulary_from_tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/tokenizer/test_vocabulary.h"
#include "common/tokenizer/tokenizer.h"

namespace baton::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// `text` with its first `what` replaced.
std::string with(std::string text, std::string_view what, std::string_view by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

constexpr std::string_view kByteLevel = R"({
  "version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [
    {"id": 3, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true},
    {"id": 5, "content": "<think>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": false}],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                    "use_regex": true},
  "post_processor": null,
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
              "use_regex": true},
  "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
            "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": false, "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})";

// Of the kind of Llama 2, from the data of the oracle test.
std::string sentence_piece() { return read_test_data("tiny/llama2/tokenizer.json"); }

Result<VocabularySpec> read(std::string_view json, std::string_view config = "",
                            std::string_view generation = "") {
  TokenizerTexts texts;
  texts.tokenizer = json;
  texts.tokenizer_config = config;
  texts.generation_config = generation;
  return vocabulary_from_tokenizer_json(texts);
}

std::string error_of(std::string_view json, std::string_view config = "",
                     std::string_view generation = "") {
  const auto spec = read(json, config, generation);
  return spec.ok() ? "" : spec.status().to_string();
}

TEST(VocabularyFromTokenizerJsonTest, ReadsTokensAndTypes) {
  const auto spec = read(kByteLevel);
  ASSERT_TRUE(spec.ok()) << spec.status().to_string();
  EXPECT_EQ(spec->model, "gpt2");
  EXPECT_EQ(spec->pre_tokenizer, "gpt-2");
  EXPECT_THAT(spec->tokens, ElementsAre("a", "b", "ab", "<s>", "", "<think>"));
  EXPECT_THAT(spec->token_types, ElementsAre(1, 1, 1, 3, 5, 4));  // 4 is a hole
  EXPECT_THAT(spec->merges, ElementsAre("a b"));
  EXPECT_EQ(spec->ignore_merges, false);
  EXPECT_EQ(spec->is_nfc, false);
  EXPECT_EQ(spec->add_bos, false);
  const auto tokenizer = Tokenizer::create(*spec);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  EXPECT_THAT(tokenizer->encode("ab<think>"), ElementsAre(2, 5));
  EXPECT_EQ(tokenizer->token_bytes(4), "");
}

TEST(VocabularyFromTokenizerJsonTest, ReadsTheConfigurationsBesideIt) {
  const auto spec = read(kByteLevel,
                         R"({"bos_token": {"content": "<s>"}, "eos_token": "b", "pad_token": "a",
                             "add_bos_token": true, "chat_template": "{{ x }}", "other": [1]})",
                         R"({"eos_token_id": [1, 5], "temperature": 0.6})");
  ASSERT_TRUE(spec.ok()) << spec.status().to_string();
  EXPECT_EQ(spec->bos_id, 3);
  EXPECT_EQ(spec->eos_id, 1);
  EXPECT_EQ(spec->padding_id, 0);
  EXPECT_EQ(spec->add_bos, true);
  EXPECT_THAT(spec->more_end_ids, ElementsAre(1, 5));
  EXPECT_EQ(spec->chat_template, "{{ x }}");
  const auto tokenizer = Tokenizer::create(*spec);
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_THAT(tokenizer->end_ids(), ElementsAre(1, 5));
  EXPECT_THAT(read(kByteLevel, "", R"({"eos_token_id": 2})")->more_end_ids, ElementsAre(2));
}

TEST(VocabularyFromTokenizerJsonTest, TheFilesHaveAnOrder) {
  TokenizerTexts texts;
  texts.tokenizer = kByteLevel;
  texts.tokenizer_config =
      R"({"eos_token": "b", "chat_template": [{"name": "default", "template": "d"},
                                              {"name": "tool_use", "template": "t"}]})";
  texts.special_tokens_map = R"({"eos_token": "a", "bos_token": "<s>"})";
  auto spec = vocabulary_from_tokenizer_json(texts);
  ASSERT_TRUE(spec.ok()) << spec.status().to_string();
  EXPECT_EQ(spec->eos_id, 1);
  EXPECT_EQ(spec->bos_id, 3);
  EXPECT_EQ(spec->chat_template, "d");
  texts.chat_template = "of the file";
  spec = vocabulary_from_tokenizer_json(texts);
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->chat_template, "of the file");
}

TEST(VocabularyFromTokenizerJsonTest, ReadsSentencePiece) {
  const auto spec = read(sentence_piece());
  ASSERT_TRUE(spec.ok()) << spec.status().to_string();
  EXPECT_EQ(spec->model, "llama");
  EXPECT_EQ(spec->spaces.prefix, SpaceRules::Prefix::kEverySegment);
  EXPECT_TRUE(spec->spaces.strip_on_decode);
  EXPECT_EQ(spec->add_bos, true);
  EXPECT_EQ(spec->unknown_id, 0);
  EXPECT_THAT(
      error_of(with(sentence_piece(), R"("byte_fallback":true)", R"("byte_fallback":false)")),
      HasSubstr("tokenizer.json: model.byte_fallback is false; supported: true with a "
                "SentencePiece vocabulary"));
  EXPECT_THAT(error_of(with(sentence_piece(), R"("type":"Strip")", R"("type":"Metaspace")")),
              HasSubstr("tokenizer.json: decoder.decoders[3].type is \"Metaspace\"; supported: "
                        "Replace, ByteFallback, Fuse and perhaps Strip, in this order"));
  EXPECT_THAT(error_of(with(sentence_piece(), R"("type":"Prepend")", R"("type":"NFKC")")),
              HasSubstr("tokenizer.json: normalizer.normalizers[0].type is \"NFKC\"; supported: "
                        "Prepend, Replace with a SentencePiece vocabulary"));
}

TEST(VocabularyFromTokenizerJsonTest, RefusesByKeyValueAndWhatIsSupported) {
  const std::string file(kByteLevel);
  EXPECT_EQ(error_of(with(file, R"("type": "BPE")", R"("type": "Unigram")")),
            "unsupported: tokenizer.json: model.type is \"Unigram\"; supported: \"BPE\"");
  EXPECT_EQ(error_of(with(file, R"("normalizer": null)", R"("normalizer": {"type": "NFKC"})")),
            "unsupported: tokenizer.json: normalizer.type is \"NFKC\"; supported: NFC with a "
            "byte-level vocabulary");
  EXPECT_EQ(
      error_of(with(file, R"({"type": "ByteLevel", "add_prefix_space": false)",
                    R"({"type": "ByteLevel", "add_prefix_space": true)")),
      "unsupported: tokenizer.json: pre_tokenizer.add_prefix_space is true; supported: false");
  EXPECT_EQ(error_of(with(file, R"("post_processor": null)",
                          R"("post_processor": {"type": "RobertaProcessing"})")),
            "unsupported: tokenizer.json: post_processor.type is \"RobertaProcessing\"; "
            "supported: ByteLevel, one TemplateProcessing, Sequence");
  EXPECT_EQ(error_of(with(file, R"("decoder": {"type": "ByteLevel")",
                          R"("decoder": {"type": "WordPiece")")),
            "unsupported: tokenizer.json: decoder.type is \"WordPiece\"; supported: ByteLevel "
            "with a byte-level vocabulary");
  EXPECT_EQ(error_of(with(file, R"("dropout": null)", R"("dropout": 0.1)")),
            "unsupported: tokenizer.json: model.dropout is 1E-1; supported: null");
  EXPECT_EQ(error_of(with(file, R"("ignore_merges": false)", R"("new_key": 1)")),
            "unsupported: tokenizer.json: model.new_key is 1; supported: the keys type, dropout, "
            "unk_token, continuing_subword_prefix, end_of_word_suffix, fuse_unk, byte_fallback, "
            "ignore_merges, vocab, merges");
  EXPECT_EQ(error_of(with(file, R"("single_word": false)", R"("single_word": true)")),
            "unsupported: tokenizer.json: added_tokens[0].single_word is true; supported: false");
  EXPECT_THAT(error_of(with(file, R"("unk_token": null)", R"("unk_token": "a")")),
              HasSubstr("model.unk_token is \"a\"; supported: null where not all 256 bytes"));
}

TEST(VocabularyFromTokenizerJsonTest, RefusesAnUnknownSplit) {
  const std::string file =
      with(std::string(kByteLevel), R"("pre_tokenizer": {)",
           R"x("pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split",
               "pattern": {"Regex": "\\w+"}, "behavior": "Isolated", "invert": false},
               {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
               "padding": {)x");
  EXPECT_EQ(error_of(file),
            "unsupported: tokenizer.json: pre_tokenizer is \\w+ then *ByteLevel; supported: the "
            "steps of gpt-2, smollm, llama-bpe, qwen2, gpt-4o, tekken, deepseek-v3");
  EXPECT_THAT(error_of(with(file, "Isolated", "MergedWithNext")),
              HasSubstr("pre_tokenizer.pretokenizers[0].behavior is \"MergedWithNext\""));
}

TEST(VocabularyFromTokenizerJsonTest, NamesWhatContradictsItself) {
  const std::string file(kByteLevel);
  EXPECT_THAT(error_of("{"), HasSubstr("invalid_argument: tokenizer.json is no JSON"));
  EXPECT_EQ(error_of("[]"), "invalid_argument: tokenizer.json is a list, but must be an object");
  EXPECT_EQ(error_of("{}"),
            "invalid_argument: tokenizer.json: model is missing, but must be an object");
  EXPECT_THAT(error_of(with(file, R"("ab": 2)", R"("ab": "2")")),
              HasSubstr("model.vocab has \"ab\": \"2\", but ids are whole numbers"));
  EXPECT_THAT(error_of(with(file, R"("ab": 2)", R"("ab": 1)")), HasSubstr("id 1 is that of"));
  EXPECT_THAT(error_of(with(file, R"("ab": 2)", R"("ab": 90000)")),
              HasSubstr("is 90000, which is no id or leaves too many unused"));
  EXPECT_THAT(error_of(with(file, R"("ab": 2)", R"("ab": -1)")), HasSubstr("is -1"));
  EXPECT_THAT(error_of(with(file, R"(["a b"])", R"([["a", "b", "c"]])")),
              HasSubstr("model.merges[0] is a list, but must be two tokens without spaces"));
  EXPECT_EQ(error_of(file, R"({"eos_token": "x"})"),
            "invalid_argument: tokenizer_config.json: eos_token is \"x\", which is no token of "
            "tokenizer.json");
  EXPECT_THAT(error_of(file, "", R"({"eos_token_id": [6]})"),
              HasSubstr("generation_config.json: eos_token_id has 6"));
  EXPECT_THAT(error_of(file, R"({"chat_template": 1})"),
              HasSubstr("tokenizer_config.json: chat_template is 1, but must be a string"));
}

TEST(VocabularyFromTokenizerJsonTest, ATemplatePutsOneTokenBeforeAText) {
  const std::string file(kByteLevel);
  const auto processed = [&](std::string_view single) {
    return with(file, R"("post_processor": null)",
                std::string(R"("post_processor": {"type": "TemplateProcessing", "pair": [],
                            "special_tokens": {}, "single": [)") +
                    std::string(single) + "]}");
  };
  const std::string begin = R"({"SpecialToken": {"id": "<s>", "type_id": 0}})";
  const std::string text = R"({"Sequence": {"id": "A", "type_id": 0}})";
  const auto spec = read(processed(begin + "," + text + "," + begin));  // it never closes
  ASSERT_TRUE(spec.ok()) << spec.status().to_string();
  EXPECT_EQ(spec->bos_id, 3);
  EXPECT_EQ(spec->add_bos, true);
  EXPECT_EQ(read(processed(text))->add_bos, false);
  EXPECT_EQ(read(processed(begin + "," + text), R"({"add_bos_token": false})")->add_bos, false);
  EXPECT_THAT(error_of(processed(begin + "," + begin + "," + text)),
              HasSubstr("supported: one token before the text"));
  EXPECT_THAT(error_of(processed(begin + "," + text), R"({"bos_token": "a"})"),
              HasSubstr("supported: bos_token, which is token 0"));
  EXPECT_THAT(error_of(processed("")), HasSubstr("has no Sequence"));
}

}  // namespace
}  // namespace baton::tokenizer
