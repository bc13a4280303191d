#include "common/http/async_client.h"

#include <gmock/gmock.h>

#include <thread>

#include "common/http/server_fixture.h"

namespace baton::http {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

struct Seen final : ExchangeObserver {
  void on_head(const Response& head) override { status = head.status; }
  bool on_body(std::string_view bytes, TimePoint at) override {
    body += bytes;
    times.push_back(at);
    return !on_bytes || on_bytes();
  }
  void on_end(const Status& s, TimePoint at) override {
    ++ends;
    end = s;
    ended_at = at;
    if (after) {
      after();
    }
  }

  int status = 0;
  std::string body;
  std::vector<TimePoint> times;
  std::function<bool()> on_bytes;
  std::function<void()> after;
  int ends = 0;
  Status end;
  TimePoint ended_at;
};

class AsyncClientTest : public ServerTestBase {
 protected:
  void connect(const std::string& url, AsyncClientOptions options = {}) {
    Result<std::unique_ptr<AsyncClient>> made = AsyncClient::create(url, options, clock);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    client = *std::move(made);
  }
  void begin(Seen& seen, std::string path, std::string body = {}, Duration timeout = 20s) {
    const ClientRequest request{"POST", std::move(path), {}, std::move(body)};
    const auto id = client->start(request, timeout, seen);
    ASSERT_TRUE(id.ok()) << id.status().to_string();
    last_id = *id;
  }
  bool run_until(const std::function<bool()>& done) {
    const TimePoint deadline = std::chrono::steady_clock::now() + 10s;
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) {
        return false;
      }
      client->run_for(1ms);
    }
    return true;
  }

  FakeClock clock;
  std::unique_ptr<AsyncClient> client;
  AsyncClient::ExchangeId last_id = 0;
};

TEST_F(AsyncClientTest, RunsManyExchangesAtOnceAndKeepsTheConnections) {
  start();
  connect(server->url());
  for (int round = 0; round < 2; ++round) {
    std::vector<Seen> seen(200);
    for (size_t i = 0; i < seen.size(); ++i) {
      begin(seen[i], "/echo", "body " + std::to_string(i));
    }
    EXPECT_EQ(client->exchanges(), 200u);
    ASSERT_TRUE(run_until([&] { return client->exchanges() == 0; }));
    for (size_t i = 0; i < seen.size(); ++i) {
      EXPECT_EQ(seen[i].ends, 1);
      EXPECT_TRUE(seen[i].end.ok()) << seen[i].end.to_string();
      EXPECT_EQ(seen[i].status, 200);
      EXPECT_EQ(seen[i].body, "POST /echo  body " + std::to_string(i));
    }
    EXPECT_EQ(client->connections(), 200u);
  }
}

TEST_F(AsyncClientTest, StampsEachPieceByItsClock) {
  start();
  connect(server->url());
  Seen seen;
  std::shared_ptr<Responder> responder;
  int pieces = 0;
  seen.on_bytes = [&] {
    clock.advance(10ms);
    if (++pieces == 5) {
      responder->finish();
    } else {
      responder->write("piece");
    }
    return true;
  };
  begin(seen, "/hold");
  std::optional<Held> got;
  ASSERT_TRUE(run_until([&] { return (got = held.try_pop()).has_value(); }));
  responder = got->responder;
  const TimePoint begun = clock.now();
  clock.advance(5ms);
  responder->begin_stream(200, {});
  responder->write("piece");
  ASSERT_TRUE(run_until([&] { return seen.ends == 1; }));
  ASSERT_EQ(seen.times.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(seen.times[i] - begun, 5ms + i * 10ms);
  }
  EXPECT_EQ(seen.ended_at - begun, 55ms);
}

TEST_F(AsyncClientTest, StartsTheNextExchangeFromInsideACall) {
  start();
  connect(server->url());
  Seen first;
  Seen second;
  first.after = [&] { begin(second, "/echo", "second"); };
  begin(first, "/echo", "first");
  ASSERT_TRUE(run_until([&] { return second.ends == 1; }));
  EXPECT_EQ(second.body, "POST /echo  second");
  EXPECT_EQ(client->connections(), 1u);
}

TEST_F(AsyncClientTest, LeavesIdleConnectionsThatTheServerClosed) {
  ServerOptions options;
  options.idle_timeout = 20ms;
  start(options);
  connect(server->url());
  for (int i = 0; i < 2; ++i) {
    Seen seen;
    begin(seen, "/echo");
    ASSERT_TRUE(run_until([&] { return seen.ends == 1; }));
    EXPECT_TRUE(seen.end.ok()) << seen.end.to_string();
    ASSERT_TRUE(wait_for_connections(0));
  }
}

TEST_F(AsyncClientTest, SaysWhyAnExchangeFailed) {
  start();
  connect(server->url());
  Seen late;
  begin(late, "/hold", "", 30ms);
  ASSERT_TRUE(run_until([&] { return late.ends == 1; }));
  EXPECT_EQ(late.end.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(late.end.message(), server->url() + "/hold: no complete answer in time");
  take_held();

  Seen cut;
  begin(cut, "/hold");
  std::optional<Held> got;
  ASSERT_TRUE(run_until([&] { return (got = held.try_pop()).has_value(); }));
  got->responder->begin_stream(200, {});
  got->responder->write("first");
  got.reset();  // nobody will finish it: the server cuts the stream
  ASSERT_TRUE(run_until([&] { return cut.ends == 1; }));
  EXPECT_EQ(cut.end.code(), StatusCode::kUnavailable) << cut.end.to_string();

  server->stop();
  Seen refused;
  begin(refused, "/echo");
  ASSERT_TRUE(run_until([&] { return refused.ends == 1; }));
  EXPECT_EQ(refused.end.code(), StatusCode::kUnavailable);
  EXPECT_THAT(refused.end.message(), EndsWith("connection refused; is the server running?"));
}

TEST_F(AsyncClientTest, CancelsFromOutsideAndInside) {
  start();
  connect(server->url());
  Seen outside;
  begin(outside, "/hold");
  client->cancel(last_id);
  EXPECT_EQ(outside.ends, 1);
  EXPECT_EQ(outside.end.code(), StatusCode::kCancelled);
  client->cancel(last_id);
  EXPECT_EQ(outside.ends, 1);

  Seen stops;
  stops.on_bytes = [] { return false; };
  begin(stops, "/echo");
  Seen cancels;
  cancels.on_bytes = [&] {
    client->cancel_all();
    return true;
  };
  begin(cancels, "/echo");
  ASSERT_TRUE(run_until([&] { return stops.ends == 1 && cancels.ends == 1; }));
  EXPECT_EQ(stops.end.code(), StatusCode::kCancelled);
  EXPECT_EQ(cancels.end.code(), StatusCode::kCancelled);
}

TEST_F(AsyncClientTest, BoundsTheExchangesAndEndsWithoutCallsWhenDestroyed) {
  start();
  connect(server->url(), {.max_exchanges = 2});
  Seen seen[2];
  begin(seen[0], "/hold");
  begin(seen[1], "/hold");
  Seen third;
  const auto id = client->start({"GET", "/hold", {}, {}}, 1s, third);
  EXPECT_EQ(id.status().code(), StatusCode::kResourceExhausted);
  client->run_for(1ms);
  client.reset();
  EXPECT_EQ(seen[0].ends + seen[1].ends + third.ends, 0);
  ASSERT_TRUE(wait_for_connections(0));
}

TEST_F(AsyncClientTest, RunsForAsLongAsAskedOrUntilInterrupted) {
  start();
  connect(server->url());
  const TimePoint before = std::chrono::steady_clock::now();
  client->run_for(5ms);
  EXPECT_GE(std::chrono::steady_clock::now() - before, 5ms);
  Seen seen;
  seen.after = [&] { client->interrupt(); };
  begin(seen, "/echo");
  client->run_for(1h);
  EXPECT_EQ(seen.ends, 1);
}

TEST_F(AsyncClientTest, RefusesUrlsThatItCannotServe) {
  EXPECT_EQ(AsyncClient::create("ftp://x/", {}, clock).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::http
