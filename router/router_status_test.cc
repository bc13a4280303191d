// What the loop answers to operators.

#include "router/router_loop_fixture.h"

namespace baton::router {
namespace {

using wire::FinishReason;
using RouterStatusTest = RouterLoopTest;

TEST_F(RouterStatusTest, TellsTheLifeOfARequestWhileItRunsAndAfterwards) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto answer = post();
  const RunKey key = p0->next<wire::Prefill>()->body.key;
  const boost::json::value waiting = explain("cmpl-x");
  EXPECT_EQ(waiting.at("state"), "waiting");
  EXPECT_EQ(waiting.at("attempts").at(0).at("reason"), "never");
  wire::Tokens first;
  first.key = key;
  first.from = p0->id();
  first.ids = {10};
  first.timings = wire::RunTimings{"p0", 2, 3, 3, 0, "", 0, 0, 0, 0, 0, 1};
  p0->send(first);
  d0->tokens(key, 0, {10, 11}, FinishReason::kLength);
  ASSERT_TRUE(answer->wait_done());
  const boost::json::value got = explain("cmpl-x");
  EXPECT_EQ(got.at("state"), "finished");
  EXPECT_EQ(got.at("finish_reason"), "length");
  EXPECT_EQ(got.at("completion_tokens"), 2);
  const boost::json::value& attempt = got.at("attempts").at(0);
  EXPECT_EQ(attempt.at("prefill"), "p0");
  EXPECT_EQ(attempt.at("decode"), "d0");
  EXPECT_EQ(attempt.at("measured").at("prefill_ms").to_number<double>(), 3);
  EXPECT_FALSE(attempt.at("handed_over_ms").is_null());
  EXPECT_EQ(attempt.at("considered").as_array().size(), 2u);
  EXPECT_NEAR(registry_.histogram(metrics::MetricId::kRequestQueueTime).sum(), 0.002, 1e-9);
  EXPECT_NEAR(registry_.histogram(metrics::MetricId::kRequestPrefillTime).sum(), 0.003, 1e-9);

  const boost::json::value unknown = explain("cmpl-y");
  EXPECT_EQ(unknown.at("error").at("code"), "request_not_found");
  EXPECT_NE(unknown.at("error").at("message").as_string().find("the last 1 that ended"),
            std::string::npos);
}

TEST_F(RouterStatusTest, SaysWhatTheLoadIs) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  wire::Heartbeat heartbeat;
  heartbeat.incarnation = p0->id();
  heartbeat.waiting_tokens = 7;
  heartbeat.recent.prefill_tokens_per_s = 1234;
  p0->send(heartbeat);
  const auto answer = post();
  const RunKey key = p0->next<wire::Prefill>()->body.key;
  p0->tokens(key, 0, {10});
  d0->tokens(key, 0, {10, 11}, FinishReason::kLength);
  ASSERT_TRUE(answer->wait_done());
  const boost::json::value status = ask([](auto responder) { return StatusAsked{{}, responder}; });
  EXPECT_EQ(status.at("load").at("requests"), 1);
  EXPECT_EQ(status.at("load").at("decisions").at("remote"), 1);
  EXPECT_EQ(status.at("load").at("running"), 0);
  EXPECT_FALSE(status.at("load").at("ttft_ms").at("p99").is_null());
  for (const boost::json::value& one : status.at("workers").as_array()) {
    EXPECT_TRUE(one.at("decode_roofline_share").is_null());
    if (one.at("name") == "p0") {
      EXPECT_EQ(one.at("queued_tokens"), 7);
      EXPECT_EQ(one.at("prefill_tokens_per_s").to_number<double>(), 1234);
    }
  }
}

}  // namespace
}  // namespace baton::router
