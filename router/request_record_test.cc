#include "router/request_record.h"

#include <gtest/gtest.h>

#include "router/router_fixture.h"

namespace baton::router {
namespace {

const TimePoint kArrived{100s};

// Arrived at 0, placed at 2, first token at 42, committed at 45, last token at 142 ms.
RequestRecord remote_request() {
  RequestRecord record;
  record.request_id = "client-7";
  record.answer_id = "cmpl-1";
  record.prompt_tokens = 412;
  record.max_tokens = 20;
  record.completion_tokens = record.longest_choice = 11;
  record.arrived = kArrived;
  record.tokenised = kArrived + 1ms;
  record.first_token = kArrived + 42ms;
  record.second_token = kArrived + 52ms;
  record.second_token_gap_ms = 10;
  record.last_token = kArrived + 142ms;
  record.ended = kArrived + 143ms;
  record.finish_reason = "length";
  record.main = 0;
  AttemptRecord& attempt = record.attempts.emplace_back();
  attempt.placed = kArrived + 2ms;
  attempt.decision = "remote";
  attempt.reason = "long_prompt";
  attempt.predicted = {5, 30, 2, 0};
  attempt.considered.push_back({"p0", wire::Role::kPrefill, true, 412, 5, 30, 0, 0, 0});
  attempt.considered.push_back({"d0", wire::Role::kDecode, true, 412, 0, 80, 2, 0, 1});
  attempt.prefill_worker = "p0";
  attempt.decode_worker = "d0";
  attempt.first_token = record.first_token;
  attempt.measured = true;
  attempt.timings = {"p0", 8, 31, 412, 0, "ucx-posix", 30, 3, 9'000'000, 4, 1.5, 2};
  return record;
}

const boost::json::value* phase(const boost::json::value& explained, std::string_view name) {
  for (const boost::json::value& one : explained.at("phases").as_array()) {
    if (std::string_view(one.at("name").as_string().c_str()) == name) {
      return &one;
    }
  }
  return nullptr;
}
double number(const boost::json::value& value, std::string_view name) {
  return value.at(name).to_number<double>();
}

TEST(RequestRecordTest, LogsOneLineOfNumbers) {
  const std::string line = log_line(remote_request());
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const boost::json::value got = json(line);
  EXPECT_EQ(got.at("id"), "cmpl-1");
  EXPECT_EQ(got.at("request_id"), "client-7");
  EXPECT_EQ(got.at("decision"), "remote");
  EXPECT_EQ(got.at("reason"), "long_prompt");
  EXPECT_EQ(got.at("prefill"), "p0");
  EXPECT_EQ(got.at("decode"), "d0");
  EXPECT_EQ(got.at("finish_reason"), "length");
  EXPECT_EQ(got.at("completion_tokens"), 11);
  EXPECT_EQ(got.at("attempts"), 1);
  EXPECT_EQ(got.at("moves"), 0);
  EXPECT_EQ(number(got, "predicted_queue_ms"), 5);
  EXPECT_EQ(number(got, "predicted_ttft_ms"), 35);
  EXPECT_EQ(number(got, "queue_ms"), 8);
  EXPECT_EQ(number(got, "prefill_ms"), 31);
  EXPECT_EQ(number(got, "transfer_ms"), 30);
  EXPECT_EQ(number(got, "ttft_ms"), 42);
  EXPECT_EQ(number(got, "decode_ms"), 100);
  EXPECT_EQ(number(got, "total_ms"), 143);
}

TEST(RequestRecordTest, LogsWhatFailedBeforeItWasPlaced) {
  RequestRecord record;
  record.arrived = kArrived;
  record.ended = kArrived + 1ms;
  record.finish_reason = "error";
  record.error = "resource_exhausted";
  record.error_message = "9 requests are waiting";
  const boost::json::value got = json(log_line(record));
  EXPECT_EQ(got.at("error"), "resource_exhausted");
  EXPECT_EQ(got.at("decision"), "");
  EXPECT_TRUE(got.at("ttft_ms").is_null());
  EXPECT_EQ(json(explanation(record, kArrived)).at("state"), "failed");
  EXPECT_TRUE(ended_request(record).failed);
  EXPECT_FALSE(ended_request(record).ttft_ms);
}

TEST(RequestRecordTest, PutsThePartsOnTheRoutersClock) {
  const boost::json::value got = json(explanation(remote_request(), kArrived + 1s));
  EXPECT_EQ(got.at("state"), "finished");
  EXPECT_EQ(number(got, "tpot_ms"), 10);
  const boost::json::value* prefill = phase(got, "prefill");
  ASSERT_NE(prefill, nullptr);
  EXPECT_EQ(number(*prefill, "begin_ms"), 11);  // the first token came 31 ms later
  EXPECT_EQ(number(*prefill, "end_ms"), 42);
  EXPECT_EQ(number(*prefill, "predicted_ms"), 30);
  const boost::json::value* queue = phase(got, "queue");
  ASSERT_NE(queue, nullptr);
  EXPECT_EQ(number(*queue, "begin_ms"), 3);
  const boost::json::value* transfer = phase(got, "transfer");
  ASSERT_NE(transfer, nullptr);
  EXPECT_EQ(number(*transfer, "begin_ms"), 15);
  EXPECT_EQ(number(*transfer, "end_ms"), 45);
  const boost::json::value& attempt = got.at("attempts").at(0);
  EXPECT_EQ(number(attempt.at("measured"), "grant_ms"), 1.5);
  EXPECT_EQ(attempt.at("considered").at(1).at("worker"), "d0");
  double before = -1;
  for (const boost::json::value& event : got.at("timeline").as_array()) {
    EXPECT_GE(number(event, "at_ms"), before);
    before = number(event, "at_ms");
  }
  EXPECT_EQ(got.at("timeline").at(0).at("event"), "arrived");
}

TEST(RequestRecordTest, ExplainsWhatStillWaits) {
  RequestRecord record = remote_request();
  record.main = -1;
  record.first_token = record.second_token = record.last_token = record.ended = {};
  record.finish_reason.clear();
  record.attempts[0].first_token = {};
  record.attempts[0].measured = false;
  const boost::json::value got = json(explanation(record, kArrived + 30ms));
  EXPECT_EQ(got.at("state"), "waiting");
  EXPECT_EQ(number(got, "total_ms"), 30);
  EXPECT_TRUE(got.at("ttft_ms").is_null());
  EXPECT_TRUE(got.at("attempts").at(0).at("measured").is_null());
  const boost::json::value* so_far = phase(got, "queue, prefill");
  ASSERT_NE(so_far, nullptr);
  EXPECT_EQ(number(*so_far, "end_ms"), 30);
  EXPECT_EQ(number(*so_far, "predicted_ms"), 35);
}

TEST(RequestRecordTest, CountsLostAttemptsAsQueue) {
  RequestRecord record = remote_request();
  AttemptRecord lost = record.attempts[0];
  lost.placed = kArrived;
  lost.measured = false;
  lost.timings = {};
  lost.first_token = {};
  record.attempts.insert(record.attempts.begin(), lost);
  record.attempts[1].moved_because = "prefill worker p1 is gone (left)";
  record.main = 1;
  record.moves = 1;
  EXPECT_DOUBLE_EQ(record.queue_ms(), 10);
  const EndedRequest ended = ended_request(record);
  EXPECT_EQ(ended.remote, 2);
  EXPECT_EQ(ended.moved, 1);
  EXPECT_DOUBLE_EQ(ended.queue_ms.value(), 10);
  EXPECT_DOUBLE_EQ(ended.transfer_visible_ms.value(), 3);
  EXPECT_NE(explanation(record, kArrived).find("prefill worker p1 is gone"), std::string::npos);
}

TEST(RequestRecordTest, KeepsTheMainAttemptOfMany) {
  RequestRecord record = remote_request();
  const AttemptRecord main = record.attempts[0];
  record.attempts.assign(40, AttemptRecord{});
  record.attempts.push_back(main);
  record.main = 40;
  record.trim();
  EXPECT_EQ(record.attempts.size(), RequestRecord::kMostAttempts);
  EXPECT_EQ(record.main_attempt()->prefill_worker, "p0");
  EXPECT_EQ(record.attempts_forgotten, 41 - static_cast<int>(RequestRecord::kMostAttempts));
  EXPECT_EQ(json(log_line(record)).at("attempts"), 41);
}

}  // namespace
}  // namespace baton::router
