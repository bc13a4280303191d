#include "common/grammar/grammar.h"

#include <gtest/gtest.h>

#include <string>

#include "common/grammar/grammar_fixture.h"

namespace baton::grammar {
namespace {

TEST(GrammarTest, EachKindHasItsReader) {
  EXPECT_TRUE(*accepts({Kind::kJsonObject, {}}, R"({"a": 1})"));
  EXPECT_FALSE(*accepts({Kind::kJsonObject, {}}, "[1]"));
  EXPECT_TRUE(*accepts({Kind::kJsonSchema, {R"({"type": "null"})"}}, "null"));
  EXPECT_TRUE(*accepts({Kind::kRegex, {"a+"}}, "aa"));
  EXPECT_TRUE(*accepts({Kind::kEbnf, {"root ::= \"x\""}}, "x"));
  EXPECT_TRUE(*accepts({Kind::kChoice, {"no", "yes"}}, "yes"));
  EXPECT_FALSE(*accepts({Kind::kChoice, {"no", "yes"}}, "ye"));
}

TEST(GrammarTest, EbnfMayNameSchemas) {
  const Source source{Kind::kEbnfWithSchemas,
                      {"root ::= (\"a\" schema-1 | \"b\" schema-2)+",
                       R"({"type": "object", "properties": {"x": {"$ref": "#/$defs/n"}},
                           "required": ["x"], "$defs": {"n": {"enum": [1, 2]}}})",
                       R"({"$ref": "#/$defs/n", "$defs": {"n": {"type": "null"}}})"}};
  EXPECT_TRUE(*accepts(source, R"(a{"x": 2}bnulla{"x": 1})"));
  EXPECT_FALSE(*accepts(source, R"(a{"x": null})"));
  EXPECT_FALSE(*accepts(source, "b1"));
  EXPECT_EQ(compile({Kind::kEbnfWithSchemas, {"root ::= schema-2", "true"}}).status(),
            invalid_argument("the rule schema-2 is not defined"));
  EXPECT_EQ(
      compile({Kind::kEbnfWithSchemas, {"root ::= schema-1 schema-1 ::= \"x\"", "true"}}).status(),
      invalid_argument("the rule schema-1 is defined twice"));
  EXPECT_EQ(
      compile({Kind::kEbnfWithSchemas, {"root ::= schema-1", R"({"not": {}})"}}).status().code(),
      StatusCode::kUnsupported);
}

TEST(GrammarTest, WrongSourcesAreErrors) {
  EXPECT_EQ(compile({Kind::kRegex, {}}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(compile({Kind::kNone, {"x"}}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(compile({Kind::kRegex, {std::string(kMaxSourceBytes + 1, 'a')}}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(GrammarTest, TheCacheKeepsTheLastUsed) {
  GrammarCache cache([] { return byte_vocabulary(); });
  const auto first = cache.get({Kind::kRegex, {"first"}});
  ASSERT_TRUE(first.ok());
  for (size_t i = 0; i + 1 < GrammarCache::kMaxGrammars; ++i) {
    ASSERT_TRUE(cache.get({Kind::kRegex, {std::string(i, 'a')}}).ok());
  }
  EXPECT_EQ(*cache.get({Kind::kRegex, {"first"}}), *first);
  ASSERT_TRUE(cache.get({Kind::kRegex, {"more"}}).ok());
  ASSERT_TRUE(cache.get({Kind::kRegex, {"and more"}}).ok());
  EXPECT_EQ(*cache.get({Kind::kRegex, {"first"}}), *first);
  EXPECT_FALSE(cache.get({Kind::kRegex, {"("}}).ok());
}

TEST(GrammarTest, TheVocabularyIsReadOnceOnFirstUse) {
  int calls = 0;
  GrammarCache cache([&calls]() -> Result<std::shared_ptr<const VocabularyTrie>> {
    ++calls;
    return calls == 1 ? Result<std::shared_ptr<const VocabularyTrie>>(not_found("no model file"))
                      : byte_vocabulary();
  });
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(cache.get({Kind::kRegex, {"a"}}).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(cache.get({Kind::kRegex, {"a"}}).ok());
  EXPECT_TRUE(cache.get({Kind::kRegex, {"b"}}).ok());
  EXPECT_EQ(calls, 2);
}

TEST(GrammarTest, AModelFilesTextTokensAreItsVocabulary) {
  const auto vocabulary =
      vocabulary_of_model(BATON_SOURCE_DIR "/models/smollm2-135m-instruct-q4_1.gguf")();
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status().to_string();
  EXPECT_EQ((*vocabulary)->vocab_size(), 49152);
  EXPECT_EQ((*vocabulary)->bytes_of(2), "");  // <|im_end|>
  EXPECT_FALSE(vocabulary_of_model("no such file")().ok());
}

}  // namespace
}  // namespace baton::grammar
