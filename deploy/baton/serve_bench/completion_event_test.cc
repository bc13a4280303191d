#include "deploy/baton/serve_bench/completion_event.h"

#include <gtest/gtest.h>

namespace baton::serve_bench {
namespace {

bool brings_tokens(std::string_view choice) {
  const CompletionEvent event =
      parse_completion_event("{\"choices\":[" + std::string(choice) + "]}");
  EXPECT_TRUE(event.valid) << choice;
  return event.token;
}

TEST(CompletionEventTest, KnowsWhichEventsBringTokens) {
  EXPECT_TRUE(brings_tokens(R"({"text":" a","finish_reason":null})"));
  EXPECT_TRUE(brings_tokens(R"({"text":" a","finish_reason":"length"})"));
  EXPECT_TRUE(brings_tokens(R"({"text":"","finish_reason":null})")) << "half a character";
  EXPECT_TRUE(brings_tokens(R"({"text":"","token_ids":[5],"finish_reason":"length"})"));
  EXPECT_FALSE(brings_tokens(R"({"text":"","finish_reason":"length"})"));
  EXPECT_TRUE(brings_tokens(R"({"delta":{"content":"a"}})"));
  EXPECT_TRUE(brings_tokens(R"({"delta":{"role":"assistant","content":"a"}})"));
  EXPECT_TRUE(brings_tokens(R"({"delta":{"content":""}})"));
  EXPECT_TRUE(brings_tokens(R"({"delta":{"reasoning_content":"hm"}})"));
  EXPECT_FALSE(brings_tokens(R"({"delta":{"role":"assistant","content":""}})"));
  EXPECT_FALSE(brings_tokens(R"({"delta":{"role":"assistant","content":null}})"));
  EXPECT_FALSE(brings_tokens(R"({"delta":{},"finish_reason":"stop"})"));
  EXPECT_FALSE(parse_completion_event(R"({"choices":[],"usage":{}})").token);
}

TEST(CompletionEventTest, ReadsUsageAndFinish) {
  const CompletionEvent event =
      parse_completion_event(R"({"choices":[{"text":"x","finish_reason":"length"}],)"
                             R"("usage":{"prompt_tokens":7,"completion_tokens":3}})");
  EXPECT_TRUE(event.finished);
  EXPECT_EQ(event.prompt_tokens, 7);
  EXPECT_EQ(event.completion_tokens, 3);
  const CompletionEvent none = parse_completion_event(R"({"choices":[],"usage":null})");
  EXPECT_EQ(none.prompt_tokens, -1);
  EXPECT_FALSE(none.finished);
}

TEST(CompletionEventTest, ReadsErrorsInTheUsualShapes) {
  for (const char* text :
       {R"({"error":{"message":"too much","type":"x"}})", R"({"error":"too much"})",
        R"({"object":"error","message":"too much"})"}) {
    const CompletionEvent event = parse_completion_event(text);
    EXPECT_TRUE(event.error) << text;
    EXPECT_EQ(event.message, "too much") << text;
    EXPECT_EQ(error_text(text), "too much") << text;
  }
  EXPECT_EQ(error_text(R"({"detail":"Not Found"})"), "Not Found");
  EXPECT_EQ(error_text("<html>\nno</html>"), "<html> no</html>");
  EXPECT_EQ(error_text(std::string(1000, 'x')).size(), 300u);
  EXPECT_EQ(error_text(""), "");
}

TEST(CompletionEventTest, RefusesWhatIsNoObject) {
  for (const char* text : {"", "x", "[1]", "\"a\"", "{\"choices\":"}) {
    EXPECT_FALSE(parse_completion_event(text).valid) << text;
  }
  for (const char* text : {R"({"choices":5})", R"({"choices":[5]})", R"({"choices":[{"delta":5}]})",
                           R"({"usage":{"prompt_tokens":"x"}})", "{}"}) {
    const CompletionEvent event = parse_completion_event(text);
    EXPECT_TRUE(event.valid) << text;
    EXPECT_FALSE(event.token) << text;
    EXPECT_EQ(event.prompt_tokens, -1) << text;
  }
}

}  // namespace
}  // namespace baton::serve_bench
