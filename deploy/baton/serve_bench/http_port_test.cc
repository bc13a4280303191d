#include "deploy/baton/serve_bench/http_port.h"

#include <gmock/gmock.h>

#include <optional>
#include <vector>

#include "common/base/bounded_queue.h"
#include "common/http/error.h"
#include "common/http/server.h"

namespace baton::serve_bench {
namespace {

using ::testing::HasSubstr;

struct Seen final : AnswerObserver {
  void on_tokens(TimePoint at) override {
    times.push_back(at);
    if (then) {
      then();
    }
  }
  void on_end(const AnswerEnd& e) override {
    EXPECT_FALSE(end.has_value()) << "one end";
    end = e;
  }
  std::vector<TimePoint> times;
  std::optional<AnswerEnd> end;
  std::function<void()> then;
};

struct Held {
  http::Request request;
  std::shared_ptr<http::Responder> responder;
};

// A server that streams what the test says, when it says so.
class HttpPortTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto started = http::Server::start(
        "127.0.0.1:0", {}, [this](http::Request request, std::shared_ptr<http::Responder> r) {
          (void)held_.try_push(Held{std::move(request), std::move(r)});
        });
    ASSERT_TRUE(started.ok());
    server_ = *std::move(started);
    connect(16);
  }
  void connect(int connections) {
    auto made = HttpPort::create(server_->url(), "key", connections, clock_);
    ASSERT_TRUE(made.ok());
    port_ = *std::move(made);
  }
  bool run_until(const std::function<bool()>& done) {
    const TimePoint deadline = std::chrono::steady_clock::now() + 10s;
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) {
        return false;
      }
      port_->run_until(clock_.now() + 1ms);
    }
    return true;
  }
  // Sends a request and returns what the server got.
  Held ask(Seen& seen, Duration timeout = 20s) {
    port_->start({"/v1/completions", "{}", timeout}, seen);
    std::optional<Held> got;
    EXPECT_TRUE(run_until([&] { return (got = held_.try_pop()).has_value(); }));
    return got ? *std::move(got) : Held{};
  }
  // An answer in these pieces, each a chunk of its own, and its end.
  AnswerEnd answer(const std::vector<std::string>& pieces, bool finish = true) {
    Seen seen;
    Held held = ask(seen);
    held.responder->begin_stream(200, {{"Content-Type", "text/event-stream; charset=utf-8"}});
    for (const std::string& piece : pieces) {
      held.responder->write(piece);
    }
    if (finish) {
      held.responder->finish();
    } else {
      EXPECT_TRUE(run_until([&] { return held.responder->buffered_bytes() == 0; }));
    }
    held.responder.reset();
    EXPECT_TRUE(run_until([&] { return seen.end.has_value(); }));
    tokens_ = seen.times.size();
    return seen.end.value_or(AnswerEnd());
  }
  static std::string token(const std::string& text) {
    return "data: {\"choices\":[{\"text\":\"" + text + "\",\"finish_reason\":null}]}\n\n";
  }
  const std::string last_ =
      "data: {\"choices\":[{\"text\":\"z\",\"finish_reason\":\"length\"}]}\n\n";
  const std::string usage_ =
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":5}}\n\n";
  const std::string done_ = "data: [DONE]\n\n";

  FakeClock clock_;
  size_t tokens_ = 0;
  BoundedQueue<Held> held_{QueueLimits{64}};
  std::unique_ptr<http::Server> server_;
  std::unique_ptr<HttpPort> port_;
};

TEST_F(HttpPortTest, StampsTokensWhenTheyCome) {
  Seen seen;
  Held held = ask(seen);
  EXPECT_EQ(held.request.headers.get("Authorization"), "Bearer key");
  // Each token is sent once the one before has been seen and the clock moved on.
  seen.then = [&] {
    clock_.advance(seen.times.size() * 10ms);
    if (seen.times.size() < 4) {
      held.responder->write(token("a"));
    } else {
      held.responder->write(last_.substr(0, 9));
      held.responder->write(last_.substr(9) + usage_ + done_);
      held.responder->finish();
      seen.then = {};
    }
  };
  const TimePoint begun = clock_.now();
  clock_.advance(30ms);
  held.responder->begin_stream(200, {{"Content-Type", "text/event-stream"}});
  held.responder->write(token("a"));
  ASSERT_TRUE(run_until([&] { return seen.end.has_value(); }));
  ASSERT_EQ(seen.times.size(), 5u);
  const std::vector<Duration> wanted = {30ms, 40ms, 60ms, 90ms, 130ms};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(seen.times[i] - begun, wanted[i]) << i;
  }
  EXPECT_EQ(seen.end->outcome, Outcome::kComplete);
  EXPECT_EQ(seen.end->prompt_tokens, 9);
  EXPECT_EQ(seen.end->completion_tokens, 5);
  EXPECT_EQ(seen.end->at - begun, 130ms);
}

TEST_F(HttpPortTest, ReadsEventsAcrossChunks) {
  const std::string all = token("a") + token("b") + last_ + usage_ + done_;
  for (const size_t size : {1u, 7u, 50u}) {
    std::vector<std::string> pieces;
    for (size_t at = 0; at < all.size(); at += size) {
      pieces.push_back(all.substr(at, size));
    }
    const AnswerEnd end = answer(pieces);
    EXPECT_EQ(end.outcome, Outcome::kComplete) << end.message;
    EXPECT_EQ(end.completion_tokens, 5);
    EXPECT_EQ(tokens_, 3u);
  }
}

TEST_F(HttpPortTest, KnowsWhetherAnAnswerIsComplete) {
  EXPECT_EQ(answer({token("a"), last_}).outcome, Outcome::kComplete) << "no [DONE], but a reason";
  EXPECT_EQ(answer({token("a"), done_}).outcome, Outcome::kComplete) << "[DONE] without a reason";
  EXPECT_EQ(answer({token("a"), token("b")}).outcome, Outcome::kCutStream);
  EXPECT_EQ(answer({token("a")}, false).outcome, Outcome::kConnection) << "cut by the server";
  EXPECT_EQ(answer({token("a"), last_, done_}, false).outcome, Outcome::kComplete)
      << "what becomes of the connection after [DONE] does not matter";
  EXPECT_EQ(answer({done_}).outcome, Outcome::kEmpty);
}

TEST_F(HttpPortTest, ATokenWithoutTextIsATokenToo) {
  EXPECT_EQ(
      answer({"data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n", done_})
          .outcome,
      Outcome::kComplete);
  EXPECT_EQ(tokens_, 1u);
}

TEST_F(HttpPortTest, ReportsErrorsOfTheServer) {
  const AnswerEnd event =
      answer({token("a"), "data: {\"error\":{\"message\":\"worker lost\"}}\n\n"});
  EXPECT_EQ(event.outcome, Outcome::kErrorEvent);
  EXPECT_EQ(event.message, "worker lost");
  EXPECT_EQ(answer({"data: oops\n\n"}).outcome, Outcome::kBadAnswer);

  Seen refused;
  ask(refused).responder->send(http::error_response(resource_exhausted("queue is full")));
  ASSERT_TRUE(run_until([&] { return refused.end.has_value(); }));
  EXPECT_EQ(refused.end->outcome, Outcome::kHttpStatus);
  EXPECT_EQ(refused.end->http_status, 429);
  EXPECT_EQ(refused.end->message, "queue is full");
  EXPECT_EQ(outcome_label(refused.end->outcome, refused.end->http_status), "http_429");

  Seen whole;
  ask(whole).responder->send(http::json_response(200, "{\"choices\":[]}"));
  ASSERT_TRUE(run_until([&] { return whole.end.has_value(); }));
  EXPECT_EQ(whole.end->outcome, Outcome::kBadAnswer);
  EXPECT_THAT(whole.end->message, HasSubstr("no event stream"));
}

TEST_F(HttpPortTest, ReportsAHungServerAndAMissingOne) {
  Seen hung;
  const Held held = ask(hung, 40ms);
  ASSERT_TRUE(run_until([&] { return hung.end.has_value(); }));
  EXPECT_EQ(hung.end->outcome, Outcome::kTimeout);
  server_->stop();
  Seen missing;
  port_->start({"/v1/completions", "{}", 1s}, missing);
  ASSERT_TRUE(run_until([&] { return missing.end.has_value(); }));
  EXPECT_EQ(missing.end->outcome, Outcome::kConnection);
  EXPECT_THAT(missing.end->message, HasSubstr("connection refused"));
}

TEST_F(HttpPortTest, StopsAllAndKeepsToItsConnections) {
  connect(2);
  Seen seen[3];
  for (Seen& s : seen) {
    port_->start({"/v1/completions", "{}", 20s}, s);
  }
  EXPECT_EQ(seen[2].end->outcome, Outcome::kConnectionLimit);
  port_->cancel_all();
  EXPECT_EQ(seen[0].end->outcome, Outcome::kStopped);
  EXPECT_EQ(seen[1].end->outcome, Outcome::kStopped);
}

TEST(OutcomeTest, HasALabelForEach) {
  EXPECT_EQ(outcome_label(Outcome::kComplete, 200), "complete");
  EXPECT_EQ(outcome_label(Outcome::kTimeout, 0), "timeout");
  EXPECT_EQ(outcome_label(Outcome::kCutStream, 200), "cut_stream");
  EXPECT_EQ(outcome_label(Outcome::kEmpty, 200), "empty_answer");
  EXPECT_EQ(outcome_label(Outcome::kConnectionLimit, 0), "connection_limit");
}

}  // namespace
}  // namespace baton::serve_bench
