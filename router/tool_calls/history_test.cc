#include "router/tool_calls/history.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

namespace baton::router {
namespace {

namespace json = boost::json;

json::array list(std::string_view text) {
  return json::parse({text.data(), text.size()}).as_array();
}

constexpr std::string_view kTurns = R"([
  {"role":"system","content":"S"},
  {"role":"user","content":"Q"},
  {"role":"assistant","content":"","tool_calls":[
    {"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},
    {"id":"call_2","type":"function","function":{"name":"g","arguments":{}}}]},
  {"role":"tool","tool_call_id":"call_1","content":"one"},
  {"role":"tool","tool_call_id":"call_2","content":"two"}])";
constexpr std::string_view kTools =
    R"([{"type":"function","function":{"name":"f","description":"Does f."}}])";

TemplateTraits with_tools() {
  TemplateTraits traits;
  traits.has_tools = true;
  return traits;
}
TemplateTraits without_tools(bool has_system) {
  TemplateTraits traits;
  traits.has_system = has_system;
  return traits;
}

TEST(HistoryTest, GivesTemplatesArgumentsAsTheyWantThem) {
  TemplateTraits traits = with_tools();
  json::array out = messages_for(list(kTurns), list(kTools), traits, CallForm::kHermes);
  ASSERT_EQ(out.size(), 5);
  EXPECT_EQ(out[2].at("tool_calls").at(0).at("function").at("arguments"),
            json::parse(R"({"a":1})"));
  EXPECT_EQ(out[3].at("role"), "tool");
  traits.arguments_as_text = true;
  out = messages_for(list(kTurns), list(kTools), traits, CallForm::kHermes);
  EXPECT_EQ(out[2].at("tool_calls").at(0).at("function").at("arguments"), R"({"a": 1})");
  EXPECT_EQ(out[2].at("tool_calls").at(1).at("function").at("arguments"), "{}");
  // What is no object stays as it is.
  const json::array odd = list(
      R"([{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":"{a"}}]}])");
  traits.arguments_as_text = false;
  out = messages_for(odd, {}, traits, CallForm::kHermes);
  EXPECT_EQ(out[0].at("tool_calls").at(0).at("function").at("arguments"), "{a");
}

TEST(HistoryTest, MakesIdsShortWhereTheTemplateWantsThem) {
  TemplateTraits traits = with_tools();
  traits.short_ids = true;
  const json::array out = messages_for(list(kTurns), {}, traits, CallForm::kMistral);
  EXPECT_EQ(out[2].at("tool_calls").at(0).at("id"), "0000call1");
  EXPECT_EQ(out[3].at("tool_call_id"), "0000call1");
  EXPECT_EQ(out[4].at("tool_call_id"), "0000call2");
}

TEST(HistoryTest, WritesCallsAsTextForTemplatesWithoutTools) {
  const json::array out =
      messages_for(list(kTurns), list(kTools), without_tools(true), CallForm::kHermes);
  ASSERT_EQ(out.size(), 4);
  const std::string_view system = out[0].at("content").as_string();
  EXPECT_TRUE(system.starts_with("S\n\n# Tools\n"));
  EXPECT_NE(system.find("\n{\"type\": \"function\", \"function\": {\"name\": \"f\", "
                        "\"description\": \"Does f.\"}}\n</tools>"),
            std::string_view::npos);
  EXPECT_EQ(out[2].at("content"),
            "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n"
            "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>");
  EXPECT_FALSE(out[2].as_object().contains("tool_calls"));
  EXPECT_EQ(out[3].at("role"), "user");
  EXPECT_EQ(out[3].at("content"),
            "<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response>");
  const auto text_in = [](CallForm form) {
    return std::string(
        messages_for(list(kTurns), {}, without_tools(true), form)[2].at("content").as_string());
  };
  EXPECT_EQ(text_in(CallForm::kLlama3),
            "{\"name\": \"f\", \"parameters\": {\"a\": 1}}; {\"name\": \"g\", \"parameters\": {}}");
  EXPECT_EQ(text_in(CallForm::kMistral),
            "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}}, "
            "{\"name\": \"g\", \"arguments\": {}}]");
}

TEST(HistoryTest, TellsOfToolsWhereTheTemplateHasRoom) {
  const json::array asked = list(R"([{"role":"user","content":"Q"}])");
  for (const CallForm form : {CallForm::kHermes, CallForm::kLlama3, CallForm::kMistral}) {
    const json::array first = messages_for(asked, list(kTools), without_tools(true), form);
    ASSERT_EQ(first.size(), 2);
    EXPECT_EQ(first[0].at("role"), "system");
    const json::array inside = messages_for(asked, list(kTools), without_tools(false), form);
    ASSERT_EQ(inside.size(), 1);
    EXPECT_TRUE(inside[0].at("content").as_string().starts_with("# Tools"));
    EXPECT_TRUE(inside[0].at("content").as_string().ends_with("\n\nQ"));
  }
  EXPECT_EQ(messages_for(asked, {}, without_tools(true), CallForm::kHermes), asked);
}

TEST(HistoryTest, ReadsTheOlderFields) {
  const json::array turns = list(R"([
    {"role":"assistant","content":"","function_call":{"name":"f","arguments":"{}"}},
    {"role":"function","name":"f","content":"one"},
    {"role":"assistant","content":"x","function_call":null,"tool_calls":[]}])");
  const json::array out = messages_for(turns, {}, with_tools(), CallForm::kHermes);
  EXPECT_EQ(out[0].at("tool_calls").at(0).at("function").at("name"), "f");
  EXPECT_FALSE(out[0].as_object().contains("function_call"));
  EXPECT_EQ(out[1].at("role"), "tool");
  EXPECT_EQ(out[1].at("tool_call_id"), out[0].at("tool_calls").at(0).at("id"));
  EXPECT_FALSE(out[2].as_object().contains("tool_calls"));
}

TEST(HistoryTest, ReadsDevelopersAsTheSystemWhereTheTemplateHasNone) {
  const json::array turns = list(R"([{"role":"developer","content":"D"}])");
  TemplateTraits traits = without_tools(true);
  EXPECT_EQ(messages_for(turns, {}, traits, CallForm::kHermes)[0].at("role"), "system");
  traits.has_developer = true;
  EXPECT_EQ(messages_for(turns, {}, traits, CallForm::kHermes)[0].at("role"), "developer");
}

TEST(HistoryTest, RefusesCallsOfAnotherShape) {
  const auto fault = [](std::string_view message) {
    return check_calls(json::parse({message.data(), message.size()}).as_object()).message();
  };
  EXPECT_EQ(fault(R"({"tool_calls":null,"function_call":null,"tool_call_id":"x"})"), "");
  EXPECT_EQ(fault(R"({"tool_calls":5})"), "'tool_calls' of a message must be a list");
  for (const char* call : {"5", "{}", R"({"function":5})", R"({"function":{"name":5}})"}) {
    EXPECT_EQ(fault(R"({"tool_calls":[)" + std::string(call) + "]}"),
              "a call in a message must have a function with a 'name'");
  }
  EXPECT_EQ(fault(R"({"tool_calls":[{"function":{"name":"f","arguments":5}}]})"),
            "'arguments' of a call in a message must be a string of JSON");
  EXPECT_EQ(fault(R"({"tool_calls":[{"id":5,"function":{"name":"f"}}]})"),
            "'id' of a call in a message must be a string");
  EXPECT_EQ(fault(R"({"function_call":5})"),
            "a call in a message must have a function with a 'name'");
  EXPECT_EQ(fault(R"({"tool_call_id":5})"), "'tool_call_id' of a message must be a string");
}

}  // namespace
}  // namespace baton::router
