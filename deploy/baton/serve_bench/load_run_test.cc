#include "deploy/baton/serve_bench/load_run.h"

#include <gtest/gtest.h>

#include "deploy/baton/serve_bench/prompt.h"
#include "deploy/baton/serve_bench/simulated_server.h"
#include "deploy/baton/serve_bench/summary.h"

namespace baton::serve_bench {
namespace {

class LoadRunTest : public ::testing::Test {
 protected:
  LoadRunTest() {
    spec.make_call = [](const PlannedRequest& planned, uint64_t number) {
      const std::string prompt = PromptMaker(1).text(planned, number, {});
      return CompletionCall{"/v1/completions", Dialect().body(prompt, planned.output_tokens), {}};
    };
    spec.slo = {1s, 100ms};
  }
  RunOutcome run() { return LoadRun(server, spec).run(); }
  // Requests every `gap`.
  void arrive(int count, Duration gap, int output = 5) {
    for (int i = 0; i < count; ++i) {
      spec.arrivals.push_back({i * gap, 10, output, {}});
    }
  }

  SimulatedServer server;
  LoadSpec spec;
};

TEST_F(LoadRunTest, MeasuresExactlyWhatTheServerTook) {
  server.prefill = 20ms;
  server.pace = 7ms;
  arrive(10, 100ms);
  const RunOutcome out = run();
  ASSERT_EQ(out.records.size(), 10u);
  for (const RequestRecord& record : out.records) {
    EXPECT_TRUE(record.complete());
    EXPECT_EQ(record.ttft(), 20ms);
    EXPECT_EQ(record.tpot().value(), 7ms);
    EXPECT_EQ(record.sent, record.scheduled);
    EXPECT_EQ(record.ended - record.scheduled, 48ms);
    EXPECT_EQ(record.tokens, 5);
    EXPECT_EQ(record.prompt_tokens, 10);
  }
  EXPECT_EQ(out.gaps.count(), 40u);
  EXPECT_EQ(out.gaps.max(), 7ms);
  EXPECT_EQ(out.end - out.start, 948ms);
}

TEST_F(LoadRunTest, CountsWaitingFromTheScheduledArrivalAndHoldsNothingBack) {
  // Twice what the server can do: the n-th request waits n x 10 ms longer.
  server.prefill = 20ms;
  arrive(20, 10ms);
  const RunOutcome out = run();
  ASSERT_EQ(out.records.size(), 20u);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(out.records[i].scheduled - out.start, i * 10ms);
    EXPECT_EQ(out.records[i].sent, out.records[i].scheduled);
    EXPECT_EQ(out.records[i].ttft(), 20ms + i * 10ms);
  }
}

TEST_F(LoadRunTest, AClosedLoopKeepsItsClientsBusyUntilTheWindowEnds) {
  server.prefill = 0ms;
  server.pace = 10ms;
  spec.concurrency = 3;
  spec.window = 1s;
  spec.next = closed_loop_source({10, 0}, {6, 0}, 0, 1);
  const RunOutcome out = run();
  // 50 ms a request: 20 rounds of 3, all started within the second.
  EXPECT_EQ(out.records.size(), 60u);
  EXPECT_EQ(out.end - out.start, 1s);
  spec.window = {};
  spec.next = closed_loop_source({10, 0}, {6, 0}, 7, 1);
  EXPECT_EQ(run().records.size(), 7u);
}

TEST_F(LoadRunTest, CountsFailuresByKindAndKeepsTheFirstMessage) {
  server.refuse = [](size_t n, const std::string&) -> std::optional<AnswerEnd> {
    if (n % 4 == 1) {
      return AnswerEnd{.outcome = Outcome::kHttpStatus,
                       .http_status = 503,
                       .message = "busy " + std::to_string(n)};
    }
    return n == 2 ? std::optional(AnswerEnd{.outcome = Outcome::kConnection, .message = "reset"})
                  : std::nullopt;
  };
  arrive(8, 50ms);
  const RunOutcome out = run();
  EXPECT_EQ(out.records.size(), 8u);
  ASSERT_EQ(out.failures.size(), 2u);
  EXPECT_EQ(out.failures.at("http_503").count, 2u);
  EXPECT_EQ(out.failures.at("http_503").first_message, "busy 1");
  EXPECT_EQ(out.failures.at("connection").count, 1u);
  const Summary summary = summarize(out, spec.slo, 400ms);
  EXPECT_EQ(summary.attained, 5u);
  EXPECT_DOUBLE_EQ(summary.attainment, 0.625);
  EXPECT_DOUBLE_EQ(summary.goodput_rps, 12.5);
}

TEST_F(LoadRunTest, AHungServerEndsInTimeouts) {
  server.hangs = true;
  spec.request_timeout = 2s;
  arrive(3, 100ms);
  const RunOutcome out = run();
  ASSERT_EQ(out.records.size(), 3u);
  EXPECT_EQ(out.failures.at("timeout").count, 3u);
  EXPECT_EQ(out.records[2].ended - out.records[2].scheduled, 2s);
}

TEST_F(LoadRunTest, ADeadServerIsNotAskedAgainAtOnce) {
  server.refuse = [](size_t, const std::string&) {
    return std::optional(AnswerEnd{.outcome = Outcome::kConnection, .message = "refused"});
  };
  spec.concurrency = 2;
  spec.window = 1s;
  spec.next = closed_loop_source({10, 0}, {6, 0}, 0, 1);
  const RunOutcome out = run();
  EXPECT_GE(out.records.size(), 10u);
  EXPECT_LE(out.records.size(), 22u) << "each client once in 100 ms";
}

TEST_F(LoadRunTest, StopsWhenAskedAndReportsTheRest) {
  arrive(100, 100ms, 50);
  int ticks = 0;
  spec.on_tick = [&](const RunProgress& progress) {
    EXPECT_EQ(progress.failed, 0u);
    EXPECT_EQ(progress.sent, progress.done + progress.running);
    return ++ticks < 20;
  };
  const RunOutcome out = run();
  EXPECT_TRUE(out.interrupted);
  EXPECT_NEAR(static_cast<double>(out.sent), 20, 1);
  EXPECT_GT(out.unfinished, 0u);
  EXPECT_EQ(out.sent, out.records.size() + out.unfinished);
  for (const RequestRecord& record : out.records) {
    EXPECT_TRUE(record.complete());
  }
}

TEST_F(LoadRunTest, GivesUpOnceTooManyHaveMissed) {
  server.prefill = 500ms;
  arrive(100, 100ms);
  spec.most_misses = 10;
  const RunOutcome out = run();
  EXPECT_TRUE(out.hopeless);
  EXPECT_FALSE(out.interrupted);
  EXPECT_LT(out.end - out.start, 5s) << "long before the 50 s that all would take";
}

TEST(RequestRecordTest, MeetsBothLimitsOrNot) {
  RequestRecord record;
  record.scheduled = TimePoint(1s);
  record.first_token = TimePoint(1500ms);
  record.last_token = TimePoint(1900ms);
  record.tokens = 5;
  record.events = 5;
  record.outcome = Outcome::kComplete;
  EXPECT_TRUE(record.meets({500ms, 100ms}));
  EXPECT_FALSE(record.meets({499ms, 100ms}));
  EXPECT_FALSE(record.meets({500ms, 99ms}));
  record.tokens = 1;
  EXPECT_TRUE(record.meets({500ms, 1ms})) << "one token has no time per token";
  record.outcome = Outcome::kTimeout;
  EXPECT_FALSE(record.meets({500ms, 100ms}));
}

}  // namespace
}  // namespace baton::serve_bench
