#include "router/tool_calls/tools.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

namespace baton::router {
namespace {

ToolRequest read(const std::string& fields, std::string* fault = nullptr) {
  const boost::json::value body = boost::json::parse("{" + fields + "}");
  FieldReader reader(body.get_object());
  ToolRequest tools = read_tools(reader);
  const std::string seen =
      reader.status().ok() ? "" : reader.param() + ": " + reader.status().message();
  if (fault != nullptr) {
    *fault = seen;
  } else {
    EXPECT_EQ(seen, "") << fields;
  }
  return tools;
}
std::string fault_of(const std::string& fields) {
  std::string fault;
  read(fields, &fault);
  return fault;
}

std::string function(const std::string& name) {
  return R"({"type":"function","function":{"name":")" + name + "\"}}";
}
const std::string kTwo = "\"tools\":[" + function("f") + "," + function("g-1.x") + "]";

TEST(ToolsTest, ReadsEveryChoice) {
  EXPECT_FALSE(read("").may_call());
  const ToolRequest both = read(kTwo);
  EXPECT_EQ(both.choice, ToolChoice::kAuto);
  EXPECT_EQ(both.offered.size(), 2);
  EXPECT_TRUE(both.knows("g-1.x"));
  EXPECT_TRUE(both.parallel);
  EXPECT_FALSE(read(kTwo + R"(,"parallel_tool_calls":false)").parallel);
  EXPECT_EQ(read(kTwo + R"(,"tool_choice":null)").choice, ToolChoice::kAuto);
  EXPECT_EQ(read(kTwo + R"(,"tool_choice":"required")").choice, ToolChoice::kRequired);
  const ToolRequest none = read(kTwo + R"(,"tool_choice":"none")");
  EXPECT_FALSE(none.may_call());
  EXPECT_TRUE(none.offered.empty());
  const ToolRequest named =
      read(kTwo + R"(,"tool_choice":{"type":"function","function":{"name":"f"}})");
  EXPECT_TRUE(named.must_call());
  EXPECT_FALSE(named.parallel);
  EXPECT_FALSE(named.knows("g-1.x"));
  EXPECT_EQ(named.offered.size(), 2);
  EXPECT_EQ(read(R"("tool_choice":"none")").choice, ToolChoice::kNone);
}

TEST(ToolsTest, ReadsTheOlderFields) {
  const std::string functions = R"("functions":[{"name":"f"},{"name":"g"}])";
  const ToolRequest tools = read(functions);
  EXPECT_TRUE(tools.legacy);
  EXPECT_EQ(tools.choice, ToolChoice::kAuto);
  EXPECT_FALSE(tools.parallel);
  EXPECT_EQ(tools.offered[0], boost::json::parse(function("f")));
  EXPECT_TRUE(read(functions + R"(,"function_call":{"name":"g"})").must_call());
  EXPECT_FALSE(read(functions + R"(,"function_call":"none")").may_call());
  EXPECT_TRUE(fault_of(functions + R"(,"function_call":"required")").starts_with("function_call"));
  EXPECT_TRUE(fault_of(functions + "," + kTwo).starts_with("functions"));
  EXPECT_EQ(fault_of(R"("function_call":"auto")"),
            "function_call: 'function_call' needs 'functions'");
}

TEST(ToolsTest, ReadsSchemasOfArguments) {
  const auto schema = [](const std::string& parameters) {
    return read(R"("tools":[{"type":"function","function":{"name":"f","parameters":)" + parameters +
                "}}]")
        .callable[0]
        .schema;
  };
  const std::string nothing = R"({"type":"object","properties":{},"additionalProperties":false})";
  EXPECT_EQ(schema("null"), nothing);
  EXPECT_EQ(schema("{}"), nothing);
  EXPECT_EQ(schema(R"({"type":"object","properties":{}})"), nothing);
  EXPECT_EQ(schema(R"({"type":"object"})"), R"({"type":"object"})");
}

TEST(ToolsTest, NamesWhatIsWrong) {
  const std::string none = "tools: 'tools' must be a list of 1 to 512 functions";
  EXPECT_EQ(fault_of(R"("tools":[])"), none);
  EXPECT_EQ(fault_of(R"("tools":"x")"), none);
  for (const char* entry :
       {"5", "{}", R"({"type":"function"})", R"({"type":"bogus","function":{"name":"f"}})"}) {
    EXPECT_TRUE(fault_of(R"("tools":[)" + std::string(entry) + "]")
                    .starts_with("tools: an entry of 'tools' must be"))
        << entry;
  }
  EXPECT_TRUE(fault_of(R"("tools":[)" + function("") + "]").starts_with("tools: a function in"));
  EXPECT_TRUE(fault_of(R"("tools":[)" + function("a b") + "]").starts_with("tools: a function in"));
  EXPECT_EQ(fault_of(R"("tools":[)" + function("f") + "," + function("f") + "]"),
            "tools: the function 'f' is there twice");
  EXPECT_EQ(fault_of(R"("tools":[{"type":"function","function":{"name":"f","parameters":"x"}}])"),
            "tools: the parameters of function 'f' must be a JSON schema of type object");
  EXPECT_EQ(fault_of(R"("tools":[{"type":"function","function":{"name":"f","description":5}}])"),
            "tools: the description of function 'f' must be a string");
  EXPECT_EQ(fault_of(R"("tool_choice":"auto")"), "tool_choice: 'tool_choice' needs 'tools'");
  for (const char* choice :
       {"\"maybe\"", "5", R"({"type":"function"})", R"({"type":"x"})", R"({"function":{}})"}) {
    EXPECT_TRUE(fault_of(kTwo + ",\"tool_choice\":" + choice)
                    .starts_with("tool_choice: 'tool_choice' must be none, auto, required"))
        << choice;
  }
  EXPECT_EQ(fault_of(kTwo + R"(,"tool_choice":{"type":"function","function":{"name":"absent"}})"),
            "tool_choice: 'tool_choice' names 'absent', which is none of the functions");
}

}  // namespace
}  // namespace baton::router
