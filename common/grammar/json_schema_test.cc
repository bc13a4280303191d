#include "common/grammar/json_schema.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>

#include "common/grammar/grammar_fixture.h"

namespace baton::grammar {
namespace {

bool fits(const std::string& schema, std::string_view text) {
  const Result<bool> out = accepts({Kind::kJsonSchema, {schema}}, text);
  EXPECT_TRUE(out.ok()) << schema << ": " << out.status().to_string();
  return out.ok() && *out;
}
Status error_of(const std::string& schema) {
  return compile({Kind::kJsonSchema, {schema}}).status();
}

TEST(JsonSchemaTest, AnyValueIsAnyJson) {
  for (const char* text : {R"({"a": [1, -2.5e3, "x\n\u00e4", true, null, {}]})", "[]", "0", "\"\"",
                           "{\n  \"a\": 1\n}"}) {
    EXPECT_TRUE(fits("{}", text)) << text;
  }
  for (const char* text : {"{a: 1}", "01", "[1,]", "\"\n\"", "\"\\ud800\"", "tru", "{} {}"}) {
    EXPECT_FALSE(fits("true", text)) << text;
  }
}

TEST(JsonSchemaTest, ObjectsHaveTheirMembersInOrder) {
  const std::string schema = R"({"type": "object", "properties": {"a": {"type": "integer"},
    "b": {"type": "string"}, "c": {"type": "null"}}, "required": ["b"]})";
  EXPECT_TRUE(fits(schema, R"({"b": "x"})"));
  EXPECT_TRUE(fits(schema, R"({"a":1,"b":"x","c":null})"));
  EXPECT_TRUE(fits(schema, R"({"b":"","c":null})"));
  EXPECT_FALSE(fits(schema, R"({"a":1})"));
  EXPECT_FALSE(fits(schema, R"({"b":"x","a":1})"));
  EXPECT_FALSE(fits(schema, R"({"b":"x","d":1})"));
  EXPECT_FALSE(fits(schema, R"({"b":"x",})"));
  const std::string all_optional = R"({"properties": {"a": {"const": 1}, "b": {"const": 2}}})";
  for (const char* text : {"{}", R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"}) {
    EXPECT_TRUE(fits(all_optional, text)) << text;
  }
  EXPECT_FALSE(fits(all_optional, R"({,"b":2})"));
}

TEST(JsonSchemaTest, AdditionalMembersNeverRepeatANamedOne) {
  const std::string schema = R"({"type": "object", "properties": {"ab": {"type": "integer"}},
    "additionalProperties": {"type": "boolean"}})";
  for (const char* text : {"{}", R"({"ab":1})", R"({"ab":1,"a":true})", R"({"abc":true,"":false})",
                           R"({"b":true,"ac":false})"}) {
    EXPECT_TRUE(fits(schema, text)) << text;
  }
  EXPECT_FALSE(fits(schema, R"({"ab":true})"));
  EXPECT_FALSE(fits(schema, R"({"a":1})"));
  EXPECT_FALSE(fits(schema, R"({"a":true,"ab":1})"));
  EXPECT_TRUE(fits(R"({"type":"object"})", R"({"x": {"y": 1}})"));
  EXPECT_FALSE(fits(R"({"type":"object","additionalProperties":false})", R"({"x":1})"));
}

TEST(JsonSchemaTest, ArraysCountTheirItems) {
  const std::string schema =
      R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})";
  EXPECT_TRUE(fits(schema, "[1]"));
  EXPECT_TRUE(fits(schema, "[1, 2,3]"));
  EXPECT_FALSE(fits(schema, "[]"));
  EXPECT_FALSE(fits(schema, "[1,2,3,4]"));
  EXPECT_FALSE(fits(schema, "[\"a\"]"));
  const std::string pair =
      R"({"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false})";
  EXPECT_TRUE(fits(pair, R"(["a", 1])"));
  EXPECT_FALSE(fits(pair, R"(["a", 1, 2])"));
  EXPECT_FALSE(fits(pair, R"(["a"])"));
  EXPECT_TRUE(fits(R"({"type": "array", "items": false})", "[]"));
  EXPECT_TRUE(
      fits(R"({"prefixItems": [{"const": 1}], "items": {"const": 2}, "maxItems": 3})", "[1,2,2]"));
}

TEST(JsonSchemaTest, StringsHaveLengthsPatternsAndFormats) {
  EXPECT_TRUE(fits(R"({"type": "string", "minLength": 2, "maxLength": 3})", "\"a\\n\xC3\xA4\""));
  EXPECT_FALSE(fits(R"({"type": "string", "minLength": 2})", "\"a\""));
  EXPECT_FALSE(fits(R"({"type": "string", "maxLength": 3})", "\"abcd\""));
  EXPECT_TRUE(fits(R"({"pattern": "^[a-z]+$"})", "\"abc\""));
  EXPECT_FALSE(fits(R"({"pattern": "^[a-z]+$"})", "\"aBc\""));
  EXPECT_TRUE(fits(R"({"pattern": "b"})", "\"abc\""));
  EXPECT_FALSE(fits(R"({"pattern": "b"})", "\"ac\""));
  EXPECT_TRUE(fits(R"({"pattern": "^[\"\\\\n]$"})", R"("\"")"));  // a quote, escaped
  EXPECT_FALSE(fits(R"({"pattern": "^\"$"})", R"(""")"));
  EXPECT_TRUE(fits(R"({"format": "date-time"})", "\"2026-01-28T23:59:59.5Z\""));
  EXPECT_FALSE(fits(R"({"format": "date"})", "\"2026-13-01\""));
  EXPECT_TRUE(fits(R"({"format": "ipv4"})", "\"10.0.255.1\""));
  EXPECT_FALSE(fits(R"({"format": "ipv4"})", "\"10.0.256.1\""));
  EXPECT_TRUE(fits(R"({"format": "uuid"})", "\"00000000-0000-4000-8000-0123456789ab\""));
  EXPECT_TRUE(fits(R"({"format": "email"})", "\"a.b@c-d.org\""));
}

TEST(JsonSchemaTest, IntegersKeepTheirBounds) {
  struct Case {
    const char* schema;
    int64_t low, high;
  };
  for (const Case& c : {Case{R"({"type":"integer","minimum":-12,"maximum":105})", -12, 105},
                        Case{R"({"type":"integer","exclusiveMinimum":7,"maximum":1000})", 8, 1000},
                        Case{R"({"type":"integer","minimum":2.5,"exclusiveMaximum":33})", 3, 32},
                        Case{R"({"type":"integer","minimum":-205,"maximum":-17})", -205, -17}}) {
    const Result<Automaton> automaton = compile({Kind::kJsonSchema, {c.schema}});
    ASSERT_TRUE(automaton.ok());
    Recognizer recognizer(*automaton, byte_vocabulary());
    for (int64_t value = -1200; value <= 1200; ++value) {
      const auto place = recognizer.advance(recognizer.start(), std::to_string(value));
      ASSERT_EQ(place->ok() && (*place)->may_end, c.low <= value && value <= c.high)
          << c.schema << " " << value;
    }
  }
  EXPECT_FALSE(fits(R"({"type":"integer"})", "-0"));
  EXPECT_FALSE(fits(R"({"type":"integer"})", "1.0"));
}

TEST(JsonSchemaTest, NumbersKeepWholeBounds) {
  const std::string schema = R"({"type":"number","minimum":-1,"exclusiveMaximum":20})";
  for (const char* text : {"-1", "-0.5", "0", "0.25", "7.125", "19.999", "1"}) {
    EXPECT_TRUE(fits(schema, text)) << text;
  }
  for (const char* text : {"-1.1", "20", "20.5", "100", "-2"}) {
    EXPECT_FALSE(fits(schema, text)) << text;
  }
  EXPECT_FALSE(fits(R"({"type":"number","exclusiveMinimum":3})", "3"));
  EXPECT_FALSE(fits(R"({"type":"number","exclusiveMinimum":3})", "3.00"));
  EXPECT_TRUE(fits(R"({"type":"number","exclusiveMinimum":3})", "3.01"));
}

TEST(JsonSchemaTest, ConstantsEnumsAndAlternatives) {
  EXPECT_TRUE(fits(R"({"const": "a\"\\\u0001\n"})", R"("a\"\\\u0001\n")"));
  EXPECT_TRUE(fits(R"({"enum": [1.5, "x", null, {"a": [1]}]})", R"({"a":[1]})"));
  EXPECT_TRUE(fits(R"({"enum": [1.5, "x"]})", "1.5"));
  EXPECT_FALSE(fits(R"({"enum": [1.5, "x"], "type": "string"})", "1.5"));
  EXPECT_TRUE(fits(R"({"anyOf": [{"type": "null"}, {"type": "integer"}]})", "12"));
  EXPECT_TRUE(fits(R"({"oneOf": [{"type": "null"}, {"type": "integer"}]})", "null"));
  EXPECT_TRUE(fits(R"({"type": ["string", "null"]})", "null"));
  EXPECT_TRUE(fits(R"({"allOf": [{"type": "null"}]})", "null"));
}

TEST(JsonSchemaTest, ThousandsOfListedValuesAreNoAmbiguity) {
  std::string values;
  for (int i = 0; i < 5'000; ++i) {
    values += (i == 0 ? "\"v" : ",\"v") + std::to_string(i) + "\"";
  }
  const std::string schema = R"({"enum": [)" + values + R"(, "v1", "", "v12345678"]})";
  for (const char* text : {"\"v0\"", "\"v1\"", "\"v4999\"", "\"\"", "\"v12345678\""}) {
    EXPECT_TRUE(fits(schema, text)) << text;
  }
  for (const char* text : {"\"v\"", "\"v5000\"", "\"v123456\"", "v1"}) {
    EXPECT_FALSE(fits(schema, text)) << text;
  }
}

TEST(JsonSchemaTest, ReferencesMayRecur) {
  const std::string schema = R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object",
    "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items":
    {"$ref": "#/$defs/tree"}}}, "required": ["v"]}}})";
  EXPECT_TRUE(fits(schema, R"({"v":1,"kids":[{"v":2},{"v":3,"kids":[]}]})"));
  EXPECT_FALSE(fits(schema, R"({"v":1,"kids":[{}]})"));
  EXPECT_TRUE(fits(R"({"properties": {"next": {"$ref": "#"}}})", R"({"next":{"next":{}}})"));
}

TEST(JsonSchemaTest, RefusesKeywordsByNameAndPlace) {
  EXPECT_EQ(error_of(R"({"properties": {"a": {"not": {}}}})").message(),
            "the schema keyword \"not\" at #/properties/a is not supported");
  for (const char* schema :
       {R"({"patternProperties": {}})", R"({"if": {}})", R"({"multipleOf": 2})",
        R"({"uniqueItems": true})", R"({"minProperties": 1})", R"({"format": "regex"})",
        R"({"allOf": [{}, {}]})", R"({"anyOf": [{}], "type": "object"})", R"({"$ref": "http://x"})",
        R"({"type": "number", "minimum": 0.5})", R"({"pattern": "a", "maxLength": 3})"}) {
    EXPECT_EQ(error_of(schema).code(), StatusCode::kUnsupported) << schema;
  }
  for (const char* schema :
       {R"({"type": "thing"})", R"({"type": []})", R"({"$ref": "#/$defs/none"})", "[]", "{", "5",
        R"({"enum": []})", R"({"type": "integer", "minimum": 3, "maximum": 2})",
        R"({"minItems": 3, "maxItems": 2})", R"({"required": ["a"]})", R"({"minLength": -1})",
        R"({"properties": {"a": false}})", R"({"$ref": "#"})", R"({"pattern": "("})"}) {
    EXPECT_EQ(error_of(schema).code(), StatusCode::kInvalidArgument) << schema;
  }
}

TEST(JsonSchemaTest, HostileSchemasAreBounded) {
  std::string deep;
  for (int i = 0; i < 60'000; ++i) {
    deep += R"({"type":"array","items":)";
  }
  EXPECT_EQ(error_of(deep).code(), StatusCode::kInvalidArgument);
  std::string nested = "{}";
  for (int i = 0; i < 80; ++i) {
    nested = R"({"items":)" + nested + "}";
  }
  EXPECT_EQ(error_of(nested).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(error_of(R"({"type":"string","maxLength":10000})").ok());
  EXPECT_EQ(error_of(R"({"type":"string","maxLength":10001})").code(),
            StatusCode::kInvalidArgument);
}

TEST(JsonSchemaTest, LargeHostileSchemasAreRefusedSoon) {
  const std::string dots = R"({"pattern": ")" + std::string(200'000, '.') + "\"}";
  EXPECT_EQ(error_of(dots).code(), StatusCode::kResourceExhausted);
  std::string properties;
  std::string required;
  for (int i = 0; i < 6'000; ++i) {
    properties += (i == 0 ? "\"p" : ",\"p") + std::to_string(i) + R"(": {"type": "null"})";
    required += (i == 0 ? "\"p" : ",\"p") + std::to_string(i) + "\"";
  }
  const Status status =
      error_of(R"({"properties": {)" + properties + R"(}, "required": [)" + required + "]}");
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
}

// Texts drawn from grammars parse as JSON.
TEST(JsonSchemaTest, WhatIsWrittenIsJson) {
  for (const char* schema :
       {"{}", R"({"type":"object","properties":{"a":{"type":"number","minimum":-3,"maximum":8},
        "b":{"type":"array","items":{"type":"string"}},"c":{"enum":["x",1.25,null]}}})",
        R"({"type":"object","properties":{"k":{}},"additionalProperties":true})"}) {
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      const std::string text = sample_text({Kind::kJsonSchema, {schema}}, seed, 60);
      boost::json::error_code error;
      boost::json::parse(text, error);
      const Result<bool> whole = accepts({Kind::kJsonSchema, {schema}}, text);
      if (*whole) {
        EXPECT_FALSE(error) << text << ": " << error.message();
      }
    }
  }
}

}  // namespace
}  // namespace baton::grammar
