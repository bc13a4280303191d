#include "router/exchange.h"

#include <gtest/gtest.h>

#include "router/router_fixture.h"

namespace baton::router {
namespace {

using metrics::MetricId;
using wire::FinishReason;

class ExchangeTest : public testing::Test {
 protected:
  Exchange exchange(ApiRequest request) {
    responder_ = std::make_shared<FakeResponder>();
    Exchange::Options options;
    options.id = 1;
    options.request = std::move(request);
    options.responder = responder_;
    options.headers.set("x-request-id", "abc");
    options.public_id = "cmpl-1";
    options.created = 1700;
    options.arrived = start_;
    return {std::move(options), tokenizer_, metrics_};
  }
  ApiRequest request(const std::string& fields = "") const {
    return completion(R"({"prompt":"a")" + fields + "}", tokenizer_);
  }
  static ChoiceDelta delta(int choice, std::string text, bool first,
                           FinishReason finish = FinishReason::kNone) {
    ChoiceDelta out;
    out.choice = choice;
    out.first = first;
    out.text = std::move(text);
    out.ids = {5};
    out.finish = finish;
    return out;
  }
  double ended(std::string_view reason) {
    return registry_.counter(MetricId::kRequestSuccess, {reason}).value();
  }
  std::string streamed_text() const {
    std::string text;
    for (const std::string& event : events(responder_->body())) {
      if (event != "[DONE]" && !json(event).at("choices").as_array().empty()) {
        text += json(event).at("choices").at(0).at("text").as_string();
      }
    }
    return text;
  }

  const tokenizer::Tokenizer tokenizer_ = tiny_tokenizer();
  metrics::Registry registry_{{.program = metrics::kByRouter, .model_name = "tiny", .worker = ""}};
  RouterMetrics metrics_{registry_};
  const TimePoint start_{50s};
  std::shared_ptr<FakeResponder> responder_;
};

TEST_F(ExchangeTest, AnswersWholeOnceAllChoicesEnded) {
  Exchange one = exchange(request(R"(,"n":2)"));
  one.deliver(delta(0, "he", true), 0, 0, start_ + 10ms);
  one.deliver(delta(1, "x", true, FinishReason::kLength), 0, 0, start_ + 11ms);
  EXPECT_TRUE(one.started());
  EXPECT_FALSE(responder_->done());
  one.deliver(delta(0, "llo", false, FinishReason::kStop), 0, 0, start_ + 20ms);
  one.count_cached(1);
  one.finish(start_ + 21ms, {}, "d0");
  ASSERT_TRUE(responder_->done());
  EXPECT_FALSE(responder_->streamed());
  EXPECT_EQ(responder_->status(), 200);
  EXPECT_EQ(responder_->headers().get("x-request-id"), "abc");
  const boost::json::value got = json(responder_->body());
  EXPECT_EQ(got.at("choices").at(0).at("text"), "hello");
  EXPECT_EQ(got.at("choices").at(0).at("finish_reason"), "stop");
  EXPECT_EQ(got.at("choices").at(1).at("text"), "x");
  EXPECT_EQ(got.at("usage").at("completion_tokens"), 3);
  EXPECT_EQ(got.at("usage").at("prompt_tokens_details").at("cached_tokens"), 1);
  EXPECT_EQ(ended("stop"), 1);
  EXPECT_EQ(ended("length"), 1);
  EXPECT_EQ(metrics_.request_prompt_tokens.sum(), 1);
  EXPECT_EQ(metrics_.request_generation_tokens.sum(), 3);
  EXPECT_EQ(metrics_.request_longest_choice.sum(), 2);
  EXPECT_EQ(metrics_.request_max_tokens.sum(), 16);
  EXPECT_EQ(metrics_.request_choices.sum(), 2);
}

TEST_F(ExchangeTest, SendsTheBestOfTheChoicesThatWereMadeAndCountsAll) {
  Exchange one = exchange(request(R"(,"n":2,"best_of":4)"));
  const std::vector<std::vector<float>> logprobs = {{-3}, {-1, -1.2f}, {-2}, {-0.5f, -0.6f, -2}};
  for (int i = 0; i < 4; ++i) {
    const std::vector<float>& own = logprobs[static_cast<size_t>(i)];
    for (size_t k = 0; k < own.size(); ++k) {
      const bool last = k + 1 == own.size();
      ChoiceDelta next =
          delta(i, std::to_string(i), k == 0, last ? FinishReason::kLength : FinishReason::kNone);
      next.logprobs = {{own[k], {}, 0}};
      one.deliver(next, 0, 0, start_ + 10ms);
    }
  }
  one.finish(start_ + 21ms, {}, "d0");
  const boost::json::value got = json(responder_->body());
  ASSERT_EQ(got.at("choices").as_array().size(), 2u);
  EXPECT_EQ(got.at("choices").at(0).at("text"), "333") << "the highest mean, not the highest sum";
  EXPECT_EQ(got.at("choices").at(0).at("index"), 0);
  EXPECT_EQ(got.at("choices").at(1).at("text"), "11");
  EXPECT_TRUE(got.at("choices").at(0).at("logprobs").is_null());
  EXPECT_EQ(got.at("usage").at("completion_tokens"), 7);
}

TEST_F(ExchangeTest, ShowsNothingButThePromptForMaxTokensZero) {
  for (const bool stream : {false, true}) {
    Exchange one = exchange(request(R"(,"echo":true,"max_tokens":0,"logprobs":0,"stream":)" +
                                    std::string(stream ? "true" : "false")));
    ChoiceDelta made = delta(0, "zzz", true, FinishReason::kStop);
    made.logprobs = {{-1, {}, 0}};
    one.deliver(made, 0, 0, start_ + 10ms);
    EXPECT_TRUE(one.started());
    one.finish(start_ + 21ms, {}, "d0");
    const boost::json::value got =
        json(stream ? events(responder_->body())[0] : responder_->body());
    EXPECT_EQ(got.at("choices").at(0).at("text"), "a");
    EXPECT_EQ(got.at("choices").at(0).at("finish_reason"), "length");
    EXPECT_EQ(got.at("choices").at(0).at("logprobs").at("tokens").as_array().size(), 1u);
    EXPECT_EQ(metrics_.generation_tokens.value(), 0);
  }
}

TEST_F(ExchangeTest, StreamsTheSameTextAndEndsWithDone) {
  Exchange one = exchange(request(
      R"(,"stream":true,"stream_options":{"include_usage":true},"return_token_ids":false)"));
  one.deliver(delta(0, "he", true), 0, 0, start_ + 1ms);
  one.deliver(delta(0, "", false), 0, 0, start_ + 2ms);  // half a character: nothing is sent
  one.deliver(delta(0, "llo", false, FinishReason::kStop), 0, 0, start_ + 3ms);
  one.finish(start_ + 3ms, {}, "d0");
  EXPECT_TRUE(responder_->done());
  EXPECT_EQ(responder_->headers().get("Content-Type"), "text/event-stream");
  EXPECT_EQ(responder_->headers().get("Cache-Control"), "no-cache");
  EXPECT_EQ(responder_->headers().get("x-request-id"), "abc");
  const std::vector<std::string> got = events(responder_->body());
  ASSERT_EQ(got.size(), 4u);
  EXPECT_EQ(streamed_text(), "hello");
  EXPECT_EQ(json(got[2]).at("choices"), json("[]"));
  EXPECT_EQ(json(got[2]).at("usage").at("completion_tokens"), 3);
  EXPECT_EQ(got[3], "[DONE]");
}

TEST_F(ExchangeTest, NumbersChoicesOverAllPrompts) {
  ApiRequest two = completion(R"({"prompt":["a","b"],"n":2,"stream":true})", tokenizer_);
  Exchange one = exchange(std::move(two));
  one.deliver(delta(1, "x", true), 1, 0, start_ + 1ms);
  EXPECT_EQ(json(events(responder_->body())[0]).at("choices").at(0).at("index"), 3);
}

TEST_F(ExchangeTest, RecordsLatenciesOfTheTokens) {
  Exchange one = exchange(request());
  AttemptRecord attempt;
  attempt.placed = start_ + 10ms;
  attempt.predicted.queue_ms = 5;
  attempt.predicted.prefill_ms = 10;
  attempt.measured = true;
  attempt.timings.queue_ms = 5;
  attempt.timings.prefill_ms = 30;
  one.add_attempt(attempt);
  one.accepted();
  one.deliver(delta(0, "a", true), 0, 0, start_ + 40ms);
  one.deliver(delta(0, "b", false), 0, 0, start_ + 70ms);
  one.deliver(delta(0, "c", false, FinishReason::kStop), 0, 0, start_ + 80ms);
  one.finish(start_ + 80ms, {}, "d0");
  EXPECT_NEAR(metrics_.ttft.sum(), 0.04, 1e-9);
  EXPECT_NEAR(metrics_.otel_ttft.sum(), 0.04, 1e-9);
  EXPECT_EQ(metrics_.itl.count(), 2u);
  EXPECT_NEAR(metrics_.itl.sum(), 0.04, 1e-9);
  EXPECT_NEAR(metrics_.second_gap.sum(), 0.03, 1e-9);
  EXPECT_NEAR(metrics_.tpot.sum(), 0.02, 1e-9);
  EXPECT_NEAR(metrics_.latency.sum(), 0.08, 1e-9);
  EXPECT_NEAR(metrics_.queue_time.sum(), 0.005, 1e-9);
  EXPECT_NEAR(metrics_.prefill_time.sum(), 0.03, 1e-9);
  EXPECT_NEAR(metrics_.decode_time.sum(), 0.04, 1e-9);
  EXPECT_NEAR(metrics_.predicted_error.sum(), 0.5, 1e-9);
  EXPECT_EQ(metrics_.generation_tokens.value(), 3);
  EXPECT_EQ(metrics_.prompt_tokens.value(),
            static_cast<double>(one.request().prompts[0].tokens.size()));
}

TEST_F(ExchangeTest, CountsAnEndWithoutATokenAsNoToken) {
  Exchange one = exchange(request());
  one.deliver(delta(0, "a", true), 0, 0, start_ + 1ms);
  ChoiceDelta end = delta(0, "", false, FinishReason::kLength);
  end.ids.clear();
  one.deliver(end, 0, 0, start_ + 2ms);
  one.finish(start_ + 2ms, {}, "d0");
  EXPECT_EQ(metrics_.generation_tokens.value(), 1);
  EXPECT_EQ(json(responder_->body()).at("usage").at("completion_tokens"), 1);
}

TEST_F(ExchangeTest, FailsBeforeTheFirstTokenWithAStatus) {
  for (const std::string fields : {"", R"(,"stream":true)"}) {
    Exchange one = exchange(request(fields));
    one.fail(resource_exhausted("9 requests are waiting"), 4500, start_);
    EXPECT_FALSE(responder_->streamed());
    EXPECT_EQ(responder_->status(), 429);
    EXPECT_EQ(responder_->headers().get("Retry-After"), "5");
    EXPECT_EQ(responder_->headers().get("x-request-id"), "abc");
    EXPECT_EQ(json(responder_->body()).at("error").at("message"), "9 requests are waiting");
  }
  EXPECT_EQ(ended("error"), 2);
}

TEST_F(ExchangeTest, FailsInAStreamWithAnErrorEventAndDone) {
  Exchange one = exchange(request(R"(,"stream":true)"));
  one.deliver(delta(0, "a", true), 0, 0, start_ + 1ms);
  one.fail(worker_lost("decode worker d0 is gone"), 0, start_ + 2ms);
  EXPECT_TRUE(responder_->done());
  const std::vector<std::string> got = events(responder_->body());
  ASSERT_EQ(got.size(), 3u);
  EXPECT_TRUE(json(got[0]).at("choices").at(0).at("finish_reason").is_null());
  EXPECT_EQ(json(got[1]).at("error").at("type"), "worker_lost_error");
  EXPECT_EQ(got[2], "[DONE]");
}

TEST_F(ExchangeTest, EndsOnce) {
  Exchange one = exchange(request());
  one.deliver(delta(0, "a", true, FinishReason::kStop), 0, 0, start_ + 1ms);
  one.finish(start_ + 1ms, {}, "d0");
  one.finish(start_ + 1ms, {}, "d0");
  one.fail(internal_error("late"), 0, start_ + 2ms);
  one.abandon(start_ + 2ms);
  EXPECT_EQ(responder_->status(), 200);
  EXPECT_EQ(ended("error"), 0);
  EXPECT_EQ(ended("abort"), 0);
}

TEST_F(ExchangeTest, CountsAClientThatLeftAsAborted) {
  Exchange one = exchange(request());
  one.abandon(start_ + 2ms);
  one.abandon(start_ + 2ms);
  EXPECT_EQ(ended("abort"), 1);
  EXPECT_FALSE(responder_->done());
}

TEST_F(ExchangeTest, CountsEveryChoiceOnce) {
  Exchange one = exchange(request(R"(,"n":4)"));
  one.deliver(delta(0, "a", true, FinishReason::kStop), 0, 0, start_ + 1ms);
  one.abandon(start_ + 2ms);
  EXPECT_EQ(ended("stop"), 1);
  EXPECT_EQ(ended("abort"), 3);
  EXPECT_EQ(one.record().finish_reason, "abort");
}

TEST_F(ExchangeTest, TakesThePartsOfTheAttemptThatGaveTheFirstToken) {
  Exchange one = exchange(request());
  AttemptRecord lost;
  lost.placed = start_ + 1ms;
  lost.predicted.prefill_ms = 1000;
  one.add_attempt(lost);
  AttemptRecord second;
  second.placed = start_ + 21ms;
  second.moved_because = "prefill worker p0 is gone";
  second.predicted.prefill_ms = 10;
  const size_t number = one.add_attempt(second);
  one.deliver(delta(0, "a", true), 0, number, start_ + 41ms);
  one.attempt(number).timings.queue_ms = 4;
  one.attempt(number).timings.prefill_ms = 15;
  AttemptRecord third = second;  // moved again, in mid-stream
  third.placed = start_ + 60ms;
  third.timings.queue_ms = 500;
  one.deliver(delta(0, "b", false, FinishReason::kLength), 0, one.add_attempt(third),
              start_ + 80ms);
  one.finish(start_ + 80ms, {}, "d0");
  EXPECT_NEAR(metrics_.queue_time.sum(), 0.024, 1e-9);  // the lost attempt was waiting
  EXPECT_NEAR(metrics_.prefill_time.sum(), 0.015, 1e-9);
  EXPECT_NEAR(metrics_.predicted_error.sum(), 0.5, 1e-9);
  EXPECT_EQ(one.record().moves, 2);
}

TEST_F(ExchangeTest, CountsNoPromptOfARequestThatWasRefused) {
  Exchange one = exchange(request());
  one.fail(resource_exhausted("full"), 0, start_);
  EXPECT_EQ(metrics_.prompt_tokens.value(), 0);
}

TEST_F(ExchangeTest, TellsTheWayThroughTheWorkersWhenAsked) {
  Exchange one = exchange(request(R"(,"baton_trace":true)"));
  one.deliver(delta(0, "a", true, FinishReason::kStop), 0, 0, start_ + 40ms);
  wire::RunTimings timings;
  timings.prefill_worker = "p\"0";
  timings.transport = "ucx-posix";
  timings.transfer_bytes = 77;
  one.finish(start_ + 40ms, timings, "d0");
  const boost::json::value trace = json(responder_->body()).at("baton");
  EXPECT_EQ(trace.at("prefill"), "p\"0");
  EXPECT_EQ(trace.at("decode"), "d0");
  EXPECT_EQ(trace.at("transport"), "ucx-posix");
  EXPECT_EQ(trace.at("transfer_bytes"), 77);
  EXPECT_EQ(trace.at("ttft_ms"), 40.0);
}

TEST_F(ExchangeTest, SendsEveryTokenIdOfAStreamThatAskedForThem) {
  Exchange one = exchange(request(R"(,"stream":true,"return_token_ids":true)"));
  one.deliver(delta(0, "", true), 0, 0, start_ + 1ms);
  one.deliver(delta(0, "", false), 0, 0, start_ + 2ms);
  one.deliver(delta(0, "x", false, FinishReason::kStop), 0, 0, start_ + 3ms);
  const std::vector<std::string> got = events(responder_->body());
  ASSERT_EQ(got.size(), 3u);
  EXPECT_TRUE(json(got[0]).at("choices").at(0).as_object().contains("prompt_token_ids"));
  for (const std::string& event : got) {
    EXPECT_EQ(json(event).at("choices").at(0).at("token_ids"), json("[5]"));
  }
}

TEST_F(ExchangeTest, PartsTheAnswersOfChats) {
  for (const bool stream : {false, true}) {
    ApiRequest request = chat(std::string(R"({"messages":[{"role":"user","content":"a"}],
        "tools":[{"type":"function","function":{"name":"f"}}],"stream":)") +
                                  (stream ? "true}" : "false}"),
                              tokenizer_);
    request.prompts.push_back({{1}});
    request.answer.has_calls = true;
    request.answer.has_reasoning = true;
    Exchange one = exchange(std::move(request));
    const std::string text =
        "<think>hm</think>Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}"
        "\n</tool_call>";
    for (size_t i = 0; i < text.size(); ++i) {
      const bool last = i + 1 == text.size();
      one.deliver(
          delta(0, text.substr(i, 1), i == 0, last ? FinishReason::kStop : FinishReason::kNone), 0,
          0, start_ + 10ms);
    }
    one.finish(start_ + 21ms, {}, "d0");
    std::string content;
    std::string reasoning;
    std::string arguments;
    std::string finish;
    const auto read = [&](const boost::json::value& choice, const boost::json::object& message) {
      const auto add = [](std::string& to, const boost::json::object& from, const char* name) {
        const boost::json::value* value = from.if_contains(name);
        to += value != nullptr && value->is_string() ? value->as_string().c_str() : "";
      };
      add(content, message, "content");
      add(reasoning, message, "reasoning_content");
      if (const boost::json::value* calls = message.if_contains("tool_calls")) {
        add(arguments, calls->at(0).at("function").as_object(), "arguments");
      }
      add(finish, choice.as_object(), "finish_reason");
    };
    if (!stream) {
      const boost::json::value choice = json(responder_->body()).at("choices").at(0);
      read(choice, choice.at("message").as_object());
    }
    for (const std::string& event :
         stream ? events(responder_->body()) : std::vector<std::string>{}) {
      if (event != "[DONE]") {
        const boost::json::value choice = json(event).at("choices").at(0);
        read(choice, choice.at("delta").as_object());
      }
    }
    EXPECT_EQ(content, "Let me see.");
    EXPECT_EQ(reasoning, "hm");
    EXPECT_EQ(arguments, "{\"a\": 1}");
    EXPECT_EQ(finish, "tool_calls");
  }
}

}  // namespace
}  // namespace baton::router
