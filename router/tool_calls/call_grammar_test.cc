#include "router/tool_calls/call_grammar.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "common/grammar/grammar_fixture.h"
#include "router/tool_calls/answer_reader.h"

namespace baton::router {
namespace {

constexpr CallForm kForms[] = {CallForm::kHermes, CallForm::kLlama3, CallForm::kMistral};

ToolRequest tools_of(std::vector<Tool> tools, ToolChoice choice = ToolChoice::kRequired) {
  ToolRequest request;
  request.callable = std::move(tools);
  request.choice = choice;
  return request;
}

const Tool kWeather = {"get_weather",
                       R"({"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}},
                           "required": ["city"], "additionalProperties": false})"};
const Tool kPing = {"ping", R"({"type": "object", "properties": {},
                                "additionalProperties": false})"};

AnswerForm form_of(CallForm form) {
  AnswerForm out;
  out.call_form = form;
  out.has_calls = true;
  return out;
}

grammar::Source restricted(const ToolRequest& tools, const AnswerForm& form,
                           wire::SamplingSpec spec = {}) {
  const Status status = restrict_to_calls(tools, form, spec);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return {static_cast<grammar::Kind>(spec.grammar_kind), spec.grammar_texts};
}

TEST(CallGrammarTest, AllowsTheCallsOfEachForm) {
  const ToolRequest tools = tools_of({kWeather, kPing});
  const grammar::Source hermes = restricted(tools, form_of(CallForm::kHermes));
  const std::string ping = "<tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>";
  EXPECT_TRUE(*grammar::accepts(hermes, ping));
  EXPECT_TRUE(*grammar::accepts(hermes, ping + "\n" + ping));
  EXPECT_TRUE(*grammar::accepts(hermes,
                                "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "
                                "{\"city\": \"Rome\"}}\n</tool_call>"));
  EXPECT_FALSE(*grammar::accepts(hermes,
                                 "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": "
                                 "{}}\n</tool_call>"));
  EXPECT_FALSE(*grammar::accepts(hermes, ""));
  EXPECT_FALSE(*grammar::accepts(hermes, "text"));
  EXPECT_TRUE(*grammar::accepts(restricted(tools, form_of(CallForm::kLlama3)),
                                "{\"name\": \"ping\", \"parameters\": {}}"));
  EXPECT_TRUE(*grammar::accepts(restricted(tools, form_of(CallForm::kMistral)),
                                "[TOOL_CALLS] [{\"name\": \"ping\", \"arguments\": {}}]"));
  AnswerForm begun = form_of(CallForm::kMistral);
  begun.begins_in_calls = true;
  EXPECT_TRUE(
      *grammar::accepts(restricted(tools, begun), "[{\"name\": \"ping\", \"arguments\": {}}]"));
}

TEST(CallGrammarTest, AllowsOneCallWhereOnlyOneIsWanted) {
  ToolRequest tools = tools_of({kPing});
  tools.parallel = false;
  const std::string ping = "{\"name\": \"ping\", \"parameters\": {}}";
  const grammar::Source source = restricted(tools, form_of(CallForm::kLlama3));
  EXPECT_TRUE(*grammar::accepts(source, ping));
  EXPECT_FALSE(*grammar::accepts(source, ping + "; " + ping));
  AnswerForm form = form_of(CallForm::kLlama3);
  form.single_call = true;
  EXPECT_FALSE(*grammar::accepts(restricted(tools_of({kPing}), form), ping + "; " + ping));
}

TEST(CallGrammarTest, AllowsOneOfHundredsOfFunctions) {
  std::vector<Tool> many;
  for (int i = 0; i < 512; ++i) {
    many.push_back({"function_" + std::to_string(i), kWeather.schema});
  }
  const grammar::Source source = restricted(tools_of(many), form_of(CallForm::kHermes));
  const auto call = [](const std::string& name) {
    return "<tool_call>\n{\"name\": \"" + name +
           "\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>";
  };
  EXPECT_TRUE(*grammar::accepts(source, call("function_511")));
  EXPECT_FALSE(*grammar::accepts(source, call("function_512")));
}

TEST(CallGrammarTest, LetsReasoningComeFirst) {
  const ToolRequest tools = tools_of({kPing});
  const std::string ping = "{\"name\": \"ping\", \"parameters\": {}}";
  AnswerForm form = form_of(CallForm::kLlama3);
  form.has_reasoning = true;
  grammar::Source source = restricted(tools, form);
  EXPECT_TRUE(*grammar::accepts(source, ping));
  EXPECT_TRUE(*grammar::accepts(source, "<think>a </th < </</thin</think>\n\n" + ping));
  EXPECT_FALSE(*grammar::accepts(source, "<think></think>x" + ping));
  EXPECT_FALSE(*grammar::accepts(source, "a</think>" + ping));
  form.begins_in_reasoning = true;
  source = restricted(tools, form);
  EXPECT_TRUE(*grammar::accepts(source, "hm \xC3\xA9\n</think>" + ping));
  EXPECT_FALSE(*grammar::accepts(source, "hm</think></think>" + ping));
}

TEST(CallGrammarTest, WhatItAllowsIsReadAsCalls) {
  const ToolRequest tools = tools_of({kWeather, kPing, {"free", R"({"type": "object"})"}});
  for (const CallForm call_form : kForms) {
    for (const bool thinks : {false, true}) {
      AnswerForm form = form_of(call_form);
      form.has_reasoning = thinks;
      const grammar::Source source = restricted(tools, form);
      for (uint64_t seed = 0; seed < 12; ++seed) {
        const std::string text = grammar::sample_text(source, seed, 300);
        if (!*grammar::accepts(source, text)) {
          continue;  // grew beyond its limit
        }
        AnswerReader reader(form, tools);
        AnswerPiece piece = reader.feed(text);
        EXPECT_GE(reader.calls(), 1) << text;
        EXPECT_EQ(piece.content + reader.finish(false).content, "") << text;
        for (const CallPiece& call : piece.calls) {
          boost::system::error_code error;
          EXPECT_TRUE(boost::json::parse(call.arguments, error).is_object()) << text;
        }
      }
    }
  }
}

TEST(CallGrammarTest, RestrictsNothingWhereCallsAreFree) {
  const grammar::Source source =
      restricted(tools_of({kPing}, ToolChoice::kAuto), form_of(CallForm::kHermes));
  EXPECT_EQ(source.kind, grammar::Kind::kNone);
}

TEST(CallGrammarTest, AllowsCallsBesideAnAnswerInJson) {
  wire::SamplingSpec spec;
  spec.grammar_kind = static_cast<uint8_t>(grammar::Kind::kJsonSchema);
  spec.grammar_texts = {R"({"enum": ["yes", "no"]})"};
  // A schema that cannot be kept to does not matter where calls are free.
  const ToolRequest tools =
      tools_of({{"f", R"({"type": "object", "not": {}})"}}, ToolChoice::kAuto);
  const grammar::Source source = restricted(tools, form_of(CallForm::kHermes), spec);
  EXPECT_TRUE(*grammar::accepts(source, "\"yes\""));
  EXPECT_FALSE(*grammar::accepts(source, "\"maybe\""));
  EXPECT_TRUE(*grammar::accepts(source,
                                "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n"
                                "</tool_call>"));
  // A call that must be made leaves no room for the answer.
  EXPECT_FALSE(*grammar::accepts(restricted(tools_of({kPing}), form_of(CallForm::kHermes), spec),
                                 "\"yes\""));
}

TEST(CallGrammarTest, NamesTheFunctionWhoseSchemaIsAtFault) {
  wire::SamplingSpec spec;
  const ToolRequest tools = tools_of({kPing, {"f", R"({"type": "object", "not": {}})"}});
  const Status status = restrict_to_calls(tools, form_of(CallForm::kHermes), spec);
  EXPECT_EQ(status,
            unsupported("the parameters of function 'f', which may have to be called: the schema "
                        "keyword \"not\" at # is not supported"));
  spec.grammar_kind = static_cast<uint8_t>(grammar::Kind::kRegex);
  EXPECT_EQ(restrict_to_calls(tools, form_of(CallForm::kHermes), spec).code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::router
