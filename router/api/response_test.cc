#include "router/api/response.h"

#include <gtest/gtest.h>

#include "router/router_fixture.h"

namespace baton::router {
namespace {

using wire::FinishReason;

const std::string kBad = "caf\xC3\xA9 \xFF\xC3 \x01\n\"\\\xE2\x80\xA8";  // invalid bytes, U+2028

class ResponseTest : public testing::Test {
 protected:
  ResponseFormat format(const ApiRequest& request) const {
    return {request, tokenizer_, "id-1", 1700, "tiny"};
  }
  static ChoiceDelta delta(std::string text, FinishReason finish = FinishReason::kNone,
                           bool first = false) {
    ChoiceDelta out;
    out.first = first;
    out.text = std::move(text);
    out.ids = {5};
    out.finish = finish;
    return out;
  }
  static ResponseFormat::WholeChoice choice(std::string text, std::vector<TokenId> ids) {
    ResponseFormat::WholeChoice out;
    out.text = std::move(text);
    out.ids = std::move(ids);
    out.finish = FinishReason::kStop;
    return out;
  }
  ApiRequest completion_of(const std::string& fields = "") const {
    return completion(R"({"prompt":"a")" + fields + "}", tokenizer_);
  }
  ApiRequest chat_of(const std::string& fields = "") const {
    return chat(R"({"messages":[{"role":"user","content":"a"}])" + fields + "}", tokenizer_);
  }

  const tokenizer::Tokenizer tokenizer_ = tiny_tokenizer();
};

TEST_F(ResponseTest, WritesAWholeCompletion) {
  const ApiRequest request = completion_of();
  const boost::json::value got = json(format(request).whole({choice("hi", {5})}, {3, 1, 2}, ""));
  EXPECT_EQ(got, json(R"({"id":"id-1","object":"text_completion","created":1700,"model":"tiny",
      "choices":[{"index":0,"text":"hi","logprobs":null,"finish_reason":"stop"}],
      "usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4,
               "prompt_tokens_details":{"cached_tokens":2}}})"));
}

TEST_F(ResponseTest, WritesAWholeChat) {
  const ApiRequest request = chat_of();
  const boost::json::value got = json(format(request).whole({choice("hi", {5})}, {3, 1, 0}, ""));
  EXPECT_EQ(got.at("object"), "chat.completion");
  EXPECT_EQ(got.at("choices").at(0),
            json(R"({"index":0,"message":{"role":"assistant","content":"hi","refusal":null},
                     "logprobs":null,"finish_reason":"stop"})"));
  EXPECT_EQ(got.at("usage").at("prompt_tokens_details").at("cached_tokens"), 0);
}

TEST_F(ResponseTest, MakesValidJsonOfAnyBytes) {
  for (const bool is_chat : {false, true}) {
    const ApiRequest request = is_chat ? chat_of() : completion_of();
    ResponseFormat out = format(request);
    json(out.whole({choice(kBad, {5})}, {}, ""));
    for (const std::string& event : events(out.delta_events(delta(kBad), 0, nullptr, nullptr))) {
      json(event);
    }
  }
}

TEST_F(ResponseTest, NumbersChoicesAndNamesTheirEnds) {
  const ApiRequest request = completion_of();
  std::vector<ResponseFormat::WholeChoice> choices = {choice("a", {5}), choice("b", {5})};
  choices[0].finish = FinishReason::kLength;
  choices[1].stop_text = "END\"";
  const boost::json::value got = json(format(request).whole(choices, {}, ""));
  EXPECT_EQ(got.at("choices").at(0).at("finish_reason"), "length");
  EXPECT_EQ(got.at("choices").at(1).at("index"), 1);
  EXPECT_EQ(got.at("choices").at(1).at("stop_reason"), "END\"");
}

TEST_F(ResponseTest, WritesTokenIdsWhenAsked) {
  const ApiRequest request = completion_of(R"(,"return_token_ids":true)");
  ResponseFormat::WholeChoice one = choice("a", {5, 6});
  const Prompt prompt{{1, 9}, "x"};
  const PromptView view{&prompt, {}};
  one.prompt = view;
  const boost::json::value got = json(format(request).whole({one}, {}, "")).at("choices").at(0);
  EXPECT_EQ(got.at("token_ids"), json("[5,6]"));
  EXPECT_EQ(got.at("prompt_token_ids"), json("[1,9]"));
  ResponseFormat stream = format(request);
  const boost::json::value first =
      json(events(stream.delta_events(delta("a"), 0, nullptr, &view))[0]).at("choices").at(0);
  EXPECT_EQ(first.at("token_ids"), json("[5]"));
  EXPECT_EQ(first.at("prompt_token_ids"), json("[1,9]"));
  const boost::json::value later =
      json(events(stream.delta_events(delta("b"), 0, nullptr, nullptr))[0]).at("choices").at(0);
  EXPECT_FALSE(later.as_object().contains("prompt_token_ids"));
}

TEST_F(ResponseTest, StreamsAChatWithRoleFirstAndAnEndOfItsOwn) {
  const ApiRequest request = chat_of(R"(,"stream":true)");
  ResponseFormat out = format(request);
  std::vector<std::string> got =
      events(out.delta_events(delta("he", FinishReason::kNone, true), 0, nullptr, nullptr));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(json(got[0]), json(R"({"id":"id-1","object":"chat.completion.chunk","created":1700,
      "model":"tiny","choices":[{"index":0,"delta":{"role":"assistant","content":"he"},
      "logprobs":null,"finish_reason":null}]})"));
  got = events(out.delta_events(delta("llo", FinishReason::kStop), 0, nullptr, nullptr));
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(json(got[0]).at("choices").at(0).at("delta"), json(R"({"content":"llo"})"));
  EXPECT_TRUE(json(got[0]).at("choices").at(0).at("finish_reason").is_null());
  EXPECT_EQ(json(got[1]).at("choices").at(0).at("delta"), json("{}"));
  EXPECT_EQ(json(got[1]).at("choices").at(0).at("finish_reason"), "stop");
}

TEST_F(ResponseTest, StreamsACompletionWithItsEndInTheLastPiece) {
  const ApiRequest request = completion_of(R"(,"stream":true)");
  ResponseFormat out = format(request);
  const std::vector<std::string> got =
      events(out.delta_events(delta("x", FinishReason::kLength), 2, nullptr, nullptr));
  ASSERT_EQ(got.size(), 1u);
  const boost::json::value value = json(got[0]);
  EXPECT_EQ(value.at("object"), "text_completion");
  EXPECT_EQ(value.at("choices").at(0).at("text"), "x");
  EXPECT_EQ(value.at("choices").at(0).at("index"), 2);
  EXPECT_EQ(value.at("choices").at(0).at("finish_reason"), "length");
  EXPECT_FALSE(value.as_object().contains("usage"));
}

constexpr const char* kTools = R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
constexpr const char* kFunctions = R"(,"functions":[{"name":"f"}])";

TEST_F(ResponseTest, WritesCallsAndReasoning) {
  const ApiRequest request = chat_of(kTools);
  ResponseFormat::WholeChoice called = choice("", {5});
  called.reasoning = "why";
  called.calls = {{0, "f", "{\"a\": 1}"}, {1, "f", "{}"}};
  boost::json::value got = json(format(request).whole({called}, {}, ""));
  const boost::json::value message = got.at("choices").at(0).at("message");
  EXPECT_EQ(got.at("choices").at(0).at("finish_reason"), "tool_calls");
  EXPECT_TRUE(message.at("content").is_null());
  EXPECT_EQ(message.at("reasoning_content"), "why");
  EXPECT_EQ(message.at("tool_calls").as_array().size(), 2);
  EXPECT_EQ(message.at("tool_calls").at(0).at("type"), "function");
  EXPECT_EQ(message.at("tool_calls").at(0).at("function"),
            json(R"({"name":"f","arguments":"{\"a\": 1}"})"));
  EXPECT_NE(message.at("tool_calls").at(0).at("id"), message.at("tool_calls").at(1).at("id"));
  called.text = "text";
  called.finish = FinishReason::kLength;
  got = json(format(request).whole({called}, {}, ""));
  EXPECT_EQ(got.at("choices").at(0).at("finish_reason"), "length");
  EXPECT_EQ(got.at("choices").at(0).at("message").at("content"), "text");
}

TEST_F(ResponseTest, WritesCallsInTheOlderShape) {
  const ApiRequest request = chat_of(kFunctions);
  ResponseFormat::WholeChoice called = choice("", {5});
  called.calls = {{0, "f", "{}"}};
  const boost::json::value got = json(format(request).whole({called}, {}, "")).at("choices").at(0);
  EXPECT_EQ(got.at("finish_reason"), "function_call");
  EXPECT_EQ(got.at("message").at("function_call"), json(R"({"name":"f","arguments":"{}"})"));
  EXPECT_FALSE(got.at("message").as_object().contains("tool_calls"));
}

TEST_F(ResponseTest, StreamsCallsInPieces) {
  const ApiRequest request = chat_of(kTools);
  ResponseFormat out = format(request);
  ChoiceDelta begin = delta("", FinishReason::kNone, true);
  begin.calls = {{0, "f", ""}};
  const boost::json::value first =
      json(events(out.delta_events(begin, 0, nullptr, nullptr))[0]).at("choices").at(0).at("delta");
  EXPECT_EQ(first.at("role"), "assistant");
  EXPECT_EQ(first.at("tool_calls").at(0).at("index"), 0);
  EXPECT_EQ(first.at("tool_calls").at(0).at("function").at("name"), "f");
  EXPECT_FALSE(first.at("tool_calls").at(0).at("id").as_string().empty());
  ChoiceDelta rest = delta("", FinishReason::kStop);
  rest.calls = {{0, "", "{}"}};
  rest.has_calls = true;
  const std::vector<std::string> last = events(out.delta_events(rest, 0, nullptr, nullptr));
  ASSERT_EQ(last.size(), 2);
  EXPECT_EQ(json(last[0]).at("choices").at(0).at("delta"),
            json(R"({"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]})"));
  EXPECT_EQ(json(last[1]).at("choices").at(0).at("delta"), json("{}"));
  EXPECT_EQ(json(last[1]).at("choices").at(0).at("finish_reason"), "tool_calls");
  ChoiceDelta thought = delta("");
  thought.reasoning = "hm";
  EXPECT_EQ(json(events(out.delta_events(thought, 0, nullptr, nullptr))[0])
                .at("choices")
                .at(0)
                .at("delta"),
            json(R"({"reasoning_content":"hm"})"));
}

TEST_F(ResponseTest, WritesUsageOnlyWhenAsked) {
  const ApiRequest request =
      completion_of(R"(,"stream":true,"stream_options":{"include_usage":true})");
  ResponseFormat out = format(request);
  const Usage usage{3, 2, 1};
  EXPECT_TRUE(
      json(events(out.delta_events(delta("x"), 0, nullptr, nullptr))[0]).at("usage").is_null());
  EXPECT_EQ(json(events(out.delta_events(delta("x"), 0, &usage, nullptr))[0])
                .at("usage")
                .at("total_tokens"),
            5);
  const boost::json::value last = json(events(out.usage_event(usage, R"({"a":1})"))[0]);
  EXPECT_EQ(last.at("choices"), json("[]"));
  EXPECT_EQ(last.at("usage").at("completion_tokens"), 2);
  EXPECT_EQ(last.at("baton"), json(R"({"a":1})"));
}

TEST_F(ResponseTest, WritesNoEmptyLogprobsAtTheEndOfAChat) {
  const ApiRequest request = chat_of(R"(,"stream":true,"logprobs":true)");
  ResponseFormat out = format(request);
  ChoiceDelta last = delta("x", FinishReason::kStop);
  last.logprobs = {{-1, {}}};
  const std::vector<std::string> got = events(out.delta_events(last, 0, nullptr, nullptr));
  ASSERT_EQ(got.size(), 2u);
  EXPECT_FALSE(json(got[0]).at("choices").at(0).at("logprobs").is_null());
  EXPECT_TRUE(json(got[1]).at("choices").at(0).at("logprobs").is_null());
}

TEST_F(ResponseTest, FramesTheEndAndErrors) {
  EXPECT_EQ(events(ResponseFormat::done_event()), std::vector<std::string>{"[DONE]"});
  EXPECT_EQ(events(ResponseFormat::error_event("{}")), std::vector<std::string>{"{}"});
}

wire::TokenLogprob logprob(float own, std::vector<std::pair<TokenId, float>> top) {
  return {own, std::move(top), 0};
}

TEST_F(ResponseTest, WritesLogprobsOfCompletionsAsFourLists) {
  const std::vector<TokenId> ids = tokenizer_.encode("ab\xC3\xA9");
  const ApiRequest request = completion_of(R"(,"logprobs":2)");
  ResponseFormat::WholeChoice one = choice("ab\xC3\xA9", ids);
  for (const TokenId id : ids) {
    one.logprobs.push_back(logprob(-0.25f, {{id, -0.25f}, {id == 60 ? 61 : 60, -1.5f}}));
  }
  one.logprobs[0].logprob = -std::numeric_limits<float>::infinity();
  const boost::json::value got =
      json(format(request).whole({one}, {}, "")).at("choices").at(0).at("logprobs");
  for (const char* list : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) {
    EXPECT_EQ(got.at(list).as_array().size(), ids.size()) << list;
  }
  EXPECT_EQ(got.at("token_logprobs").at(0), -9999.0);
  EXPECT_EQ(got.at("token_logprobs").at(1), -0.25);
  EXPECT_EQ(got.at("text_offset").at(0), 0);
  EXPECT_EQ(got.at("text_offset").at(1), 1);
  EXPECT_EQ(got.at("top_logprobs").at(1).as_object().size(), 2u);
}

TEST_F(ResponseTest, CountsOffsetsInShownCharacters) {
  const TokenId end = tokenizer_.end_ids()[0];
  std::vector<TokenId> ids = tokenizer_.encode("a");
  ids.push_back(end);
  ids.push_back(ids[0]);
  for (const bool skip : {true, false}) {
    const ApiRequest request =
        completion_of(std::string(R"(,"logprobs":0,"stream":true,"skip_special_tokens":)") +
                      (skip ? "true" : "false"));
    ResponseFormat out = format(request);
    std::vector<int64_t> offsets;
    for (const TokenId id : ids) {
      ChoiceDelta next = delta("");
      next.ids = {id};
      next.logprobs = {logprob(-1, {})};
      offsets.push_back(json(events(out.delta_events(next, 0, nullptr, nullptr))[0])
                            .at("choices")
                            .at(0)
                            .at("logprobs")
                            .at("text_offset")
                            .at(0)
                            .as_int64());
    }
    const auto shown = static_cast<int64_t>(tokenizer_.token_text(end).size());
    EXPECT_EQ(offsets, (std::vector<int64_t>{0, 1, skip ? 1 : 1 + shown}));
  }
}

TEST_F(ResponseTest, GivesExactlyTheSampledTokenForLogprobsZero) {
  const ApiRequest request = completion_of(R"(,"logprobs":0)");
  ResponseFormat::WholeChoice one = choice("a", tokenizer_.encode("a"));
  one.logprobs = {logprob(-0.5f, {})};
  const boost::json::value got =
      json(format(request).whole({one}, {}, "")).at("choices").at(0).at("logprobs");
  EXPECT_EQ(got.at("top_logprobs").at(0), json(R"({"a":-0.5})"));
}

TEST_F(ResponseTest, WritesLogprobsOfChatsWithBytes) {
  const std::vector<TokenId> ids = tokenizer_.encode("\U0001F984");
  ASSERT_GT(ids.size(), 1u);
  const ApiRequest request = chat_of(R"(,"logprobs":true,"top_logprobs":1)");
  ResponseFormat::WholeChoice one = choice("\U0001F984", ids);
  for (const TokenId id : ids) {
    one.logprobs.push_back(logprob(-0.5f, {{id, -0.5f}, {5, -3.0f}}));
  }
  const boost::json::value got =
      json(format(request).whole({one}, {}, "")).at("choices").at(0).at("logprobs");
  EXPECT_TRUE(got.at("refusal").is_null());
  std::string bytes;
  for (const boost::json::value& entry : got.at("content").as_array()) {
    for (const boost::json::value& byte : entry.at("bytes").as_array()) {
      bytes += static_cast<char>(byte.as_int64());
    }
    EXPECT_EQ(entry.at("top_logprobs").as_array().size(), 1u);
    EXPECT_EQ(entry.at("top_logprobs").at(0).at("logprob"), entry.at("logprob"));
  }
  EXPECT_EQ(bytes, "\U0001F984");
}

}  // namespace
}  // namespace baton::router
