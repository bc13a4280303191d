#include "router/request_history.h"

#include <gtest/gtest.h>

namespace baton::router {
namespace {

const TimePoint kArrived{100s};

RequestRecord ended_request_of(std::string id) {
  RequestRecord record;
  record.request_id = "client-7";
  record.answer_id = std::move(id);
  record.arrived = kArrived;
  record.ended = kArrived + 143ms;
  return record;
}

TEST(RequestHistoryTest, FindsByEitherIdTheNewestFirst) {
  RequestHistory history;
  EXPECT_EQ(history.find("client-7"), nullptr);
  EXPECT_EQ(history.oldest(kArrived), kArrived);
  history.add(ended_request_of("cmpl-1"));
  history.add(ended_request_of("cmpl-2"));
  EXPECT_EQ(history.find("client-7")->answer_id, "cmpl-2");
  EXPECT_EQ(history.find("cmpl-1")->answer_id, "cmpl-1");
  EXPECT_EQ(history.find(""), nullptr);
  EXPECT_EQ(history.oldest(TimePoint{}), kArrived + 143ms);
}

TEST(RequestHistoryTest, IsBounded) {
  RequestHistory history;
  for (size_t i = 0; i < RequestHistory::kMostRequests + 5; ++i) {
    history.add(ended_request_of("cmpl-" + std::to_string(i)));
  }
  EXPECT_EQ(history.size(), RequestHistory::kMostRequests);
  EXPECT_EQ(history.find("cmpl-4"), nullptr);
  EXPECT_NE(history.find("cmpl-5"), nullptr);
}

}  // namespace
}  // namespace baton::router
