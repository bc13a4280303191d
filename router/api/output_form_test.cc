#include "router/api/output_form.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>

#include "common/grammar/grammar.h"

namespace baton::router {
namespace {

wire::SamplingSpec read(const std::string& fields, std::string* fault = nullptr) {
  const boost::json::value body = boost::json::parse("{" + fields + "}");
  FieldReader reader(body.get_object());
  wire::SamplingSpec sampling;
  read_output_form(reader, sampling);
  if (fault != nullptr) {
    *fault = reader.status().ok() ? "" : reader.param() + ": " + reader.status().message();
  } else {
    EXPECT_TRUE(reader.status().ok()) << reader.status().to_string();
  }
  return sampling;
}
grammar::Kind kind_of(const std::string& fields) {
  return static_cast<grammar::Kind>(read(fields).grammar_kind);
}
std::string fault_of(const std::string& fields) {
  std::string fault;
  read(fields, &fault);
  return fault;
}

TEST(OutputFormTest, ReadsEveryWayToAskForOne) {
  using grammar::Kind;
  EXPECT_EQ(kind_of(R"("model": "m")"), Kind::kNone);
  EXPECT_EQ(kind_of(R"("response_format": null)"), Kind::kNone);
  EXPECT_EQ(kind_of(R"("response_format": {"type": "text"})"), Kind::kNone);
  EXPECT_EQ(kind_of(R"("response_format": {"type": "json_object"})"), Kind::kJsonObject);
  EXPECT_EQ(kind_of(R"("response_format": {"type": "json_object", "schema": {}})"),
            Kind::kJsonSchema);
  EXPECT_EQ(kind_of(R"("response_format": {"type": "json_schema", "json_schema":
                    {"name": "a", "strict": true, "schema": {"type": "null"}}})"),
            Kind::kJsonSchema);
  EXPECT_EQ(kind_of(R"("guided_json": {"type": "null"})"), Kind::kJsonSchema);
  EXPECT_EQ(kind_of(R"("guided_json": "{\"type\": \"null\"}")"), Kind::kJsonSchema);
  EXPECT_EQ(kind_of(R"("guided_regex": "a+")"), Kind::kRegex);
  EXPECT_EQ(kind_of(R"("guided_grammar": "root ::= \"a\"")"), Kind::kEbnf);
  EXPECT_EQ(kind_of(R"("guided_choice": ["a", "b"])"), Kind::kChoice);
  EXPECT_EQ(kind_of(R"("structured_outputs": {"regex": "a"})"), Kind::kRegex);
  EXPECT_EQ(read(R"("guided_choice": ["a", "b"])").grammar_texts,
            (std::vector<std::string>{"a", "b"}));
}

TEST(OutputFormTest, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(fault_of(R"("response_format": {"type": "xml"})"),
            "response_format: 'response_format.type' must be text, json_object or json_schema");
  EXPECT_EQ(fault_of(R"("response_format": {})"),
            "response_format: 'response_format.type' must be text, json_object or json_schema");
  EXPECT_EQ(fault_of(R"("response_format": "json_object")"),
            "response_format: 'response_format' must be an object with a 'type'");
  for (const char* wrapper : {"{}", "\"x\"", R"({"schema": 5})", R"({"name": "a"})", "null"}) {
    EXPECT_EQ(fault_of(R"("response_format": {"type": "json_schema", "json_schema": )" +
                       std::string(wrapper) + "}"),
              "response_format.json_schema: 'response_format.json_schema' must be an object with "
              "a 'schema', which is a JSON schema");
  }
  EXPECT_EQ(fault_of(R"("response_format": {"type": "json_object", "strict": true})"),
            "response_format.strict: 'response_format.strict' is not supported");
  EXPECT_EQ(fault_of(R"("guided_json": {"not": {}})"),
            "guided_json: 'guided_json': the schema keyword \"not\" at # is not supported");
  EXPECT_EQ(fault_of(R"("guided_json": 5)"), "guided_json: 'guided_json' must be a JSON schema");
  EXPECT_EQ(fault_of(R"("guided_regex": "(")"),
            "guided_regex: 'guided_regex': ( without ) at byte 1");
  EXPECT_EQ(fault_of(R"("guided_choice": [])"),
            "guided_choice: 'guided_choice' must be a list with at least one string");
  EXPECT_EQ(fault_of(R"("guided_choice": [""])"),
            "guided_choice: 'guided_choice' must not hold an empty string");
  EXPECT_EQ(fault_of(R"("structured_outputs": {"xml": "a"})"),
            "structured_outputs.xml: 'structured_outputs.xml' is not supported");
  EXPECT_EQ(fault_of(R"("guided_regex": "a", "guided_choice": ["b"])"),
            "guided_choice: 'guided_choice' and another field both set the form of the output");
}

}  // namespace
}  // namespace baton::router
