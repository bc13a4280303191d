// Streams and disconnects, through a real server.

#include "common/http/exchange.h"

#include <gmock/gmock.h>

#include "common/http/server_fixture.h"

namespace baton::http {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class ExchangeTest : public ServerTestBase {
 protected:
  Held hold(TestSocket& socket, std::string_view extra = "") {
    socket.send("GET /hold HTTP/1.1\r\nHost: x\r\n" + std::string(extra) + "\r\n");
    return take_held();
  }
  // A flag that on_close sets, to wait on.
  struct Closed {
    // Shared: the callback may still be inside try_push() when wait() returns.
    std::shared_ptr<BoundedQueue<int>> events = std::make_shared<BoundedQueue<int>>(QueueLimits{8});
    bool wait() { return events->pop_until(std::chrono::steady_clock::now() + 5s).has_value(); }
    std::function<void()> callback() {
      return [queue = events] { (void)queue->try_push(1); };
    }
  };
};

TEST_F(ExchangeTest, StreamsChunksAndKeepsTheConnection) {
  start();
  TestSocket socket(server->port());
  Held h = hold(socket);
  h.responder->begin_stream(200, {{"Content-Type", "text/event-stream"}});
  EXPECT_TRUE(h.responder->write("data: 1\n\n"));
  ASSERT_TRUE(socket.read_until("data: 1\n\n\r\n"));
  EXPECT_THAT(socket.received, HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_THAT(socket.received, Not(HasSubstr("Content-Length")));
  EXPECT_TRUE(h.responder->write("data: 2\n\n"));
  EXPECT_TRUE(h.responder->write(""));
  h.responder->finish();
  ASSERT_TRUE(socket.read_until("0\r\n\r\n"));
  EXPECT_THAT(socket.received, EndsWith("9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n"));
  socket.send("GET /echo?next HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(socket.read_until("GET /echo next"));
}

TEST_F(ExchangeTest, SendsEachWriteByItself) {
  start();
  TestSocket socket(server->port());
  Held h = hold(socket);
  h.responder->begin_stream(200, {});
  for (int i = 0; i < 20; ++i) {
    const std::string event = "data: " + std::to_string(i) + "\n\n";
    EXPECT_TRUE(h.responder->write(event));
    const std::string read = socket.read_once();
    EXPECT_THAT(read, EndsWith(event + "\r\n")) << "one read, one whole event";
  }
}

TEST_F(ExchangeTest, StreamsToHttp10UntilTheClose) {
  start();
  TestSocket socket(server->port());
  socket.send("GET /hold HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  Held h = take_held();
  h.responder->begin_stream(200, {});
  h.responder->write("one ");
  h.responder->write("two");
  h.responder->finish();
  const std::string answer = socket.read_all();
  EXPECT_THAT(answer, EndsWith("\r\n\r\none two"));
  EXPECT_THAT(answer, Not(HasSubstr("chunked")));
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
}

TEST_F(ExchangeTest, HeadOfAStreamHasNoBody) {
  start();
  TestSocket socket(server->port());
  socket.send("HEAD /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  Held h = take_held();
  h.responder->begin_stream(200, {});
  EXPECT_TRUE(h.responder->write("body"));
  h.responder->finish();
  ASSERT_TRUE(socket.read_until("\r\n\r\n"));
  EXPECT_THAT(socket.received, EndsWith("Transfer-Encoding: chunked\r\n\r\n"));
}

TEST_F(ExchangeTest, TellsWhenTheClientGoesAwayWhileARequestWaits) {
  start();
  auto socket = std::make_unique<TestSocket>(server->port());
  Held h = hold(*socket);
  Closed closed;
  h.responder->on_close(closed.callback());
  EXPECT_TRUE(h.responder->alive());
  socket.reset();
  EXPECT_TRUE(closed.wait());
  EXPECT_FALSE(h.responder->alive());
  h.responder->send(text_response(200, "to nobody"));
  EXPECT_TRUE(wait_for_connections(0));
}

TEST_F(ExchangeTest, TellsWhenTheClientGoesAwayInMidStream) {
  start();
  auto socket = std::make_unique<TestSocket>(server->port());
  Held h = hold(*socket);
  Closed closed;
  h.responder->on_close(closed.callback());
  h.responder->begin_stream(200, {});
  h.responder->write("data: 1\n\n");
  ASSERT_TRUE(socket->read_until("data: 1"));
  socket->reset();
  EXPECT_TRUE(closed.wait());
  EXPECT_FALSE(h.responder->write("data: 2\n\n"));
  EXPECT_EQ(h.responder->buffered_bytes(), 0u);
}

TEST_F(ExchangeTest, OneClientsDisconnectLeavesOthersAlone) {
  start();
  auto leaving = std::make_unique<TestSocket>(server->port());
  TestSocket staying(server->port());
  Held gone = hold(*leaving);
  Held kept = hold(staying);
  Closed closed;
  gone.responder->on_close(closed.callback());
  leaving.reset();
  ASSERT_TRUE(closed.wait());
  EXPECT_TRUE(kept.responder->alive());
  kept.responder->send(text_response(200, "still here"));
  EXPECT_TRUE(staying.read_until("still here"));
}

TEST_F(ExchangeTest, RunsALateCallbackAtOnce) {
  start();
  auto socket = std::make_unique<TestSocket>(server->port());
  Held h = hold(*socket);
  Closed closed;
  h.responder->on_close(closed.callback());
  socket.reset();
  ASSERT_TRUE(closed.wait());
  bool called = false;
  h.responder->on_close([&] { called = true; });
  EXPECT_TRUE(called);
}

TEST_F(ExchangeTest, DropsTheCallbackWithTheCompleteResponse) {
  start();
  TestSocket socket(server->port());
  Held h = hold(socket);
  auto token = std::make_shared<int>(1);
  std::atomic<bool> called = false;
  h.responder->on_close([token, &called] { called = true; });
  h.responder->send(text_response(200, "done"));
  ASSERT_TRUE(socket.read_until("done"));
  socket.send("GET /echo?next HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(socket.read_until("GET /echo next"));
  EXPECT_EQ(token.use_count(), 1);
  socket.close_now();
  ASSERT_TRUE(wait_for_connections(0));
  EXPECT_FALSE(called);
  h.responder->on_close([token] {});
  EXPECT_EQ(token.use_count(), 1) << "a callback after the end is not kept";
}

TEST_F(ExchangeTest, ClosesAReaderThatIsTooSlow) {
  ServerOptions options;
  options.max_buffered_bytes = 256 * 1024;
  start(options);
  TestSocket socket(server->port(), 4096);
  Held h = hold(socket);
  Closed closed;
  h.responder->on_close(closed.callback());
  h.responder->begin_stream(200, {});
  const std::string chunk(16 * 1024, 'x');
  size_t most_buffered = 0;
  int writes = 0;
  while (h.responder->write(chunk)) {
    most_buffered = std::max(most_buffered, h.responder->buffered_bytes());
    ASSERT_LT(++writes, 100'000) << "the bound does not hold";
  }
  EXPECT_LE(most_buffered, options.max_buffered_bytes + 64);
  EXPECT_TRUE(closed.wait());
  EXPECT_FALSE(h.responder->alive());
  EXPECT_TRUE(wait_for_connections(0));
}

TEST_F(ExchangeTest, ReportsTheBacklogOfASlowReader) {
  start();
  TestSocket socket(server->port(), 4096);
  Held h = hold(socket);
  h.responder->begin_stream(200, {});
  size_t written = 0;
  const std::string chunk(64 * 1024, 'x');
  while (h.responder->buffered_bytes() < 512 * 1024) {
    ASSERT_TRUE(h.responder->write(chunk));
    written += chunk.size();
    ASSERT_LT(written, 64u << 20);
  }
  h.responder->finish();
  size_t x_count = 0;
  for (std::string part = socket.read_once(); !part.empty(); part = socket.read_once()) {
    x_count += static_cast<size_t>(std::ranges::count(part, 'x'));
    if (part.ends_with("0\r\n\r\n")) {
      break;
    }
  }
  EXPECT_GE(x_count, written);
  EXPECT_EQ(h.responder->buffered_bytes(), 0u);
}

TEST_F(ExchangeTest, CutsTheStreamOfAProducerThatGaveUp) {
  start();
  TestSocket socket(server->port());
  Held h = hold(socket);
  h.responder->begin_stream(200, {});
  h.responder->write("data: 1\n\n");
  ASSERT_TRUE(socket.read_until("data: 1"));
  h.responder.reset();
  EXPECT_THAT(socket.read_all(), Not(HasSubstr("0\r\n\r\n")));
  EXPECT_TRUE(socket.ended());
}

TEST_F(ExchangeTest, IgnoresCallsAfterTheEnd) {
  start();
  TestSocket socket(server->port());
  Held h = hold(socket);
  h.responder->send(text_response(200, "first"));
  h.responder->send(text_response(500, "second"));
  h.responder->begin_stream(200, {});
  EXPECT_FALSE(h.responder->write("third"));
  h.responder->finish();
  ASSERT_TRUE(socket.read_until("first"));
  socket.send("GET /echo?next HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(socket.read_until("GET /echo next"));
  EXPECT_THAT(socket.received, Not(HasSubstr("second")));
}

TEST_F(ExchangeTest, EncodesHeads) {
  const std::string head = encode_head(
      204, {{"X-A", "b"}, {"Content-Length", "7"}, {"connection", "close"}}, WireForm{}, 9);
  EXPECT_THAT(head, testing::StartsWith("HTTP/1.1 204 No Content\r\nDate: "));
  EXPECT_THAT(head, EndsWith(" GMT\r\nX-A: b\r\n\r\n"));
}

}  // namespace
}  // namespace baton::http
