#include "deploy/baton/serve_bench/summary.h"

#include <gtest/gtest.h>

namespace baton::serve_bench {
namespace {

TEST(SummaryTest, PercentilesAreNearestRank) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) {
    values.push_back(i);
  }
  const Percentiles p = percentiles(values);
  EXPECT_EQ(p.count, 100u);
  EXPECT_EQ(p.p50, 50);
  EXPECT_EQ(p.p90, 90);
  EXPECT_EQ(p.p99, 99);
  EXPECT_EQ(p.max, 100);
  EXPECT_DOUBLE_EQ(p.mean, 50.5);
  EXPECT_EQ(percentiles({7}).p99, 7);
  EXPECT_EQ(percentiles({}).count, 0u);
}

RequestRecord answered(int i, int64_t tokens, int64_t events) {
  RequestRecord record;
  record.scheduled = TimePoint(1s) + i * 100ms;
  record.sent = record.scheduled + 2ms;
  record.first_token = record.scheduled + (i + 1) * 10ms;
  record.last_token = record.first_token + 100ms;
  record.ended = record.last_token + 1ms;
  record.wanted_tokens = 11;
  record.tokens = tokens;
  record.events = events;
  record.prompt_tokens = 30;
  record.counted_by_server = tokens != events;
  record.outcome = Outcome::kComplete;
  return record;
}

TEST(SummaryTest, AddsUpARun) {
  RunOutcome run;
  run.start = TimePoint(1s);
  for (int i = 0; i < 9; ++i) {
    run.records.push_back(answered(i, i == 0 ? 6 : 11, 4));
  }
  RequestRecord failed;
  failed.scheduled = TimePoint(2s);
  failed.sent = TimePoint(2s) + 30ms;
  failed.outcome = Outcome::kTimeout;
  run.records.push_back(failed);
  run.failures["timeout"] = {1, "no complete answer in time"};
  run.sent = 10;
  run.end = TimePoint(3s);
  const Summary s = summarize(run, {60ms, 15ms}, 1s);
  EXPECT_EQ(s.completed, 9u);
  EXPECT_EQ(s.failed, 1u);
  EXPECT_EQ(s.ttft_ms.p50, 50);
  EXPECT_EQ(s.ttft_ms.max, 90);
  EXPECT_EQ(s.tpot_ms.p50, 10);
  EXPECT_EQ(s.tpot_ms.max, 20) << "100 ms over the 5 tokens after the first";
  EXPECT_EQ(s.e2e_ms.max, 191);
  // 1 misses by TPOT, 3 by TTFT, 1 failed.
  EXPECT_EQ(s.attained, 5u);
  EXPECT_DOUBLE_EQ(s.attainment, 0.5);
  EXPECT_DOUBLE_EQ(s.goodput_rps, 5);
  EXPECT_DOUBLE_EQ(s.completed_rps, 4.5);
  EXPECT_EQ(s.output_tokens, 94);
  EXPECT_DOUBLE_EQ(s.output_tokens_per_s, 47);
  EXPECT_DOUBLE_EQ(s.prompt_tokens_mean, 30);
  EXPECT_DOUBLE_EQ(s.tokens_per_event, 94.0 / 36);
  EXPECT_EQ(s.short_answers, 1u);
  EXPECT_TRUE(s.counted_by_server);
  EXPECT_EQ(s.client_lag_ms.p50, 2);
  EXPECT_TRUE(s.client_late) << "p99 is 30 ms";
  EXPECT_EQ(failures_text(s), "1 requests failed: 1 x timeout (no complete answer in time)");
}

TEST(SummaryTest, AStoppedRunHasTheTimeThatItTook) {
  RunOutcome run;
  run.start = TimePoint(1s);
  run.end = TimePoint(3s);
  run.records = {answered(0, 4, 4)};
  run.interrupted = true;
  EXPECT_DOUBLE_EQ(summarize(run, {}, 60s).goodput_rps, 0.5);
  EXPECT_FALSE(summarize(run, {}, 60s).counted_by_server);
}

TEST(SummaryTest, NothingIsNotANumberWithoutRequests) {
  const Summary s = summarize(RunOutcome(), {}, 1s);
  EXPECT_EQ(s.attainment, 0);
  EXPECT_EQ(s.goodput_rps, 0);
  EXPECT_EQ(s.tokens_per_event, 0);
  EXPECT_FALSE(s.client_late);
}

}  // namespace
}  // namespace baton::serve_bench
