#include "router/load_window.h"

#include <gtest/gtest.h>

#include "router/router_fixture.h"

namespace baton::router {
namespace {

EndedRequest ended(TimePoint at, double ttft_ms) {
  EndedRequest request;
  request.ended = at;
  request.remote = 1;
  request.ttft_ms = ttft_ms;
  return request;
}

boost::json::value load(LoadWindow& window, TimePoint now) {
  JsonText text;
  window.write(text, now, 2, 3);
  return json(text.take());
}

const TimePoint kStart{1000s};

TEST(LoadWindowTest, IsEmptyAtFirst) {
  LoadWindow window(kStart);
  const boost::json::value got = load(window, kStart + 5s);
  EXPECT_EQ(got.at("window_s").to_number<double>(), 5);
  EXPECT_EQ(got.at("requests"), 0);
  EXPECT_EQ(got.at("rps").to_number<double>(), 0);
  EXPECT_TRUE(got.at("ttft_ms").at("p50").is_null());
  EXPECT_TRUE(got.at("tpot_ms").at("p99").is_null());
  EXPECT_TRUE(got.at("second_token_gap_ms").at("p90").is_null());
  EXPECT_EQ(got.at("waiting"), 2);
  EXPECT_EQ(got.at("running"), 3);
}

TEST(LoadWindowTest, GivesPercentilesAndSums) {
  LoadWindow window(kStart);
  for (int i = 1; i <= 100; ++i) {
    window.add(ended(kStart + 1s, i));
  }
  EndedRequest other;
  other.ended = kStart + 2s;
  other.failed = true;
  other.local = 1;
  other.moved = 2;
  window.add(other);
  const boost::json::value got = load(window, kStart + 10s);
  EXPECT_EQ(got.at("requests"), 101);
  EXPECT_NEAR(got.at("rps").to_number<double>(), 10.1, 1e-9);
  EXPECT_EQ(got.at("ttft_ms").at("p50").to_number<double>(), 50);
  EXPECT_EQ(got.at("ttft_ms").at("p90").to_number<double>(), 90);
  EXPECT_EQ(got.at("ttft_ms").at("p99").to_number<double>(), 99);
  EXPECT_FALSE(got.at("queue_ms").as_object().contains("p99"));
  EXPECT_EQ(got.at("decisions").at("remote"), 100);
  EXPECT_EQ(got.at("decisions").at("local"), 1);
  EXPECT_EQ(got.at("moved"), 2);
  EXPECT_EQ(got.at("failed"), 1);
}

TEST(LoadWindowTest, ForgetsAfterHalfAMinute) {
  LoadWindow window(kStart);
  window.add(ended(kStart + 1s, 10));
  window.add(ended(kStart + 20s, 20));
  const boost::json::value got = load(window, kStart + 45s);
  EXPECT_EQ(got.at("window_s").to_number<double>(), 30);
  EXPECT_EQ(got.at("requests"), 1);
  EXPECT_EQ(got.at("ttft_ms").at("p50").to_number<double>(), 20);
}

TEST(LoadWindowTest, IsBoundedAndSaysWhatItSpans) {
  LoadWindow window(kStart);
  for (size_t i = 0; i < LoadWindow::kMostRequests + 10; ++i) {
    window.add(ended(kStart + (i < 10 ? 1s : 28s), 1));
  }
  const boost::json::value got = load(window, kStart + 29s);
  EXPECT_EQ(got.at("requests"), static_cast<int64_t>(LoadWindow::kMostRequests));
  EXPECT_EQ(got.at("window_s").to_number<double>(), 28);
}

}  // namespace
}  // namespace baton::router
