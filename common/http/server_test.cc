#include "common/http/server.h"

#include <gmock/gmock.h>

#include <future>
#include <thread>

#include "common/http/server_fixture.h"

namespace baton::http {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ServerTest : public ServerTestBase {};

size_t count_of(std::string_view text, std::string_view part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) {
    ++n;
  }
  return n;
}

TEST_F(ServerTest, AnswersAndKeepsTheConnection) {
  start();
  TestSocket socket(server->port());
  for (int i = 0; i < 3; ++i) {
    socket.received.clear();
    socket.send("GET /echo?a=1 HTTP/1.1\r\nHost: x\r\n\r\n");
    ASSERT_TRUE(socket.read_until("GET /echo a=1 "));
    EXPECT_THAT(socket.received, StartsWith("HTTP/1.1 200 OK\r\nDate: "));
    EXPECT_THAT(socket.received, HasSubstr("\r\nContent-Length: 14\r\n"));
    EXPECT_THAT(socket.received, Not(HasSubstr("Connection:")));
  }
  EXPECT_EQ(server->connections(), 1u);
}

TEST_F(ServerTest, TellsUrlAndAddressWithThePortInUse) {
  start();
  EXPECT_NE(server->port(), 0);
  EXPECT_EQ(server->address(), "127.0.0.1:" + std::to_string(server->port()));
  EXPECT_EQ(server->url(), "http://" + server->address());
}

TEST_F(ServerTest, ListensOnIpv6) {
  auto started = Server::start("[::1]:0", {}, [](Request, std::shared_ptr<Responder>) {});
  ASSERT_TRUE(started.ok()) << started.status().to_string();
  EXPECT_THAT((*started)->url(), StartsWith("http://[::1]:"));
}

TEST_F(ServerTest, NamesATakenAddress) {
  start();
  ServerOptions options;
  options.address_hint = "--port or router.listen";
  const auto second = Server::start(server->address(), options, {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(second.status().message(),
            "cannot listen on " + server->address() +
                ": address already in use; choose another with --port or router.listen");
}

TEST_F(ServerTest, RefusesAnAddressThatIsNotOurs) {
  const auto foreign = Server::start("192.0.2.1:8000", {}, {});
  ASSERT_FALSE(foreign.ok());
  EXPECT_EQ(foreign.status().message(),
            "cannot listen on 192.0.2.1:8000: not an address of this machine");
  EXPECT_EQ(Server::start("nonsense", {}, {}).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(ServerTest, AnswersPipelinedRequestsInOrder) {
  start();
  std::string all;
  for (int i = 0; i < 200; ++i) {
    all += "GET /echo?" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\n\r\n";
  }
  all += "GET /echo?last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  const std::string answer = exchange(all);
  size_t at = 0;
  for (int i = 0; i < 200; ++i) {
    at = answer.find("GET /echo " + std::to_string(i) + " ", at);
    ASSERT_NE(at, std::string::npos) << i;
  }
  EXPECT_THAT(answer, EndsWith("GET /echo last "));
}

TEST_F(ServerTest, AnswersAPipelinedRequestAfterOneThatTakesLong) {
  start();
  TestSocket socket(server->port());
  socket.send(
      "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"
      "GET /echo?second HTTP/1.1\r\nHost: x\r\n\r\n");
  Held first = take_held();
  first.responder->send(text_response(200, "first"));
  ASSERT_TRUE(socket.read_until("GET /echo second "));
  EXPECT_LT(socket.received.find("first"), socket.received.find("second"));
}

TEST_F(ServerTest, SendsPiecesThatAreReadyTogetherInOneWrite) {
  start();
  TestSocket socket(server->port());
  socket.send("POST /burst HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n3x10");
  const std::string read = socket.read_once();
  const std::string chunk = "a\r\neeeeeeeeee\r\n";
  EXPECT_THAT(read, EndsWith("\r\n\r\n" + chunk + chunk + chunk + "0\r\n\r\n"));
}

TEST_F(ServerTest, NeverCutsAPieceToJoinOthers) {
  start();
  TestSocket socket(server->port());
  socket.send("POST /burst HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n9x600");
  ASSERT_TRUE(socket.read_until("\r\n\r\n"));
  size_t body = socket.received.size() - socket.received.find("\r\n\r\n") - 4;
  const size_t chunk = 5 + 600 + 2;
  while (body < 9 * chunk && !socket.ended()) {
    EXPECT_EQ(body % chunk, 0u);
    body += socket.read_once().size();
  }
  EXPECT_EQ(body, 9 * chunk + 5);
}

TEST_F(ServerTest, ReadsChunkedBodiesWithExtensionsAndTrailers) {
  start();
  TestSocket socket(server->port());
  socket.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;name=value\r\nabc\r\n4\r\ndefg\r\n0;last\r\nX-Check: 1\r\n\r\n"
      "GET /echo?after HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(socket.read_until("GET /echo after "));
  EXPECT_THAT(socket.received, HasSubstr("POST /echo  abcdefg"));
}

TEST_F(ServerTest, ReadsARequestByteByByte) {
  start();
  TestSocket socket(server->port());
  const std::string request =
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
  for (const char c : request) {
    ASSERT_TRUE(socket.send(std::string_view(&c, 1)));
  }
  EXPECT_THAT(socket.read_all(), EndsWith("POST /echo  hello"));
}

TEST_F(ServerTest, InvitesTheBodyAtOnceWhenExpected) {
  start();
  TestSocket socket(server->port());
  socket.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  ASSERT_TRUE(socket.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
  EXPECT_EQ(socket.received, "HTTP/1.1 100 Continue\r\n\r\n");
  socket.send("body");
  ASSERT_TRUE(socket.read_until("POST /echo  body"));
  EXPECT_EQ(count_of(socket.received, "100 Continue"), 1u);
}

TEST_F(ServerTest, HeadGetsTheFieldsWithoutTheBody) {
  start();
  TestSocket socket(server->port());
  socket.send("HEAD /big HTTP/1.1\r\nHost: x\r\n\r\nGET /echo?next HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(socket.read_until("GET /echo next "));
  EXPECT_THAT(socket.received, HasSubstr("Content-Length: 1048576\r\n"));
  EXPECT_LT(socket.received.size(), 1000u);
}

TEST_F(ServerTest, SendsABodyLargerThanTheSocketBuffer) {
  start();
  const std::string answer = exchange("GET /big HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(count_of(answer, "b"), (1u << 20) + 0u);
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
}

TEST_F(ServerTest, ServesHttp10) {
  start();
  EXPECT_THAT(exchange("GET /echo HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.0 200 OK\r\n"));
  TestSocket kept(server->port());
  kept.send("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  ASSERT_TRUE(kept.read_until("GET /echo"));
  EXPECT_THAT(kept.received, HasSubstr("Connection: keep-alive\r\n"));
  kept.received.clear();
  kept.send("GET /echo?2 HTTP/1.0\r\n\r\n");
  EXPECT_THAT(kept.read_all(), EndsWith("GET /echo 2 "));
}

TEST_F(ServerTest, DecodesTargets) {
  start();
  EXPECT_THAT(exchange("GET /v1/models/a%2Fb?x=%20 HTTP/1.0\r\n\r\n"),
              EndsWith("GET /v1/models/a/b x=%20 "));
  EXPECT_THAT(exchange("GET http://host:80/echo HTTP/1.0\r\n\r\n"), EndsWith("GET /echo  "));
  EXPECT_THAT(exchange("OPTIONS * HTTP/1.0\r\n\r\n"), EndsWith("OPTIONS *  "));
  EXPECT_THAT(exchange("GET /a%zz HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(exchange("GET /a%2 HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(exchange("GET echo HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(ServerTest, GivesHeadersAndPeerToTheHandler) {
  start();
  TestSocket socket(server->port());
  socket.send("GET /hold HTTP/1.1\r\nhOST: x\r\nX-Two: a\r\nx-two: b\r\n\r\n");
  const Held held_request = take_held();
  EXPECT_EQ(held_request.request.headers.get("host"), "x");
  EXPECT_EQ(held_request.request.headers.get("X-TWO"), "a");
  EXPECT_EQ(held_request.request.headers.count("x-two"), 2u);
  EXPECT_THAT(held_request.request.peer_address, StartsWith("127.0.0.1:"));
  EXPECT_EQ(held_request.request.http_minor, 1);
}

TEST_F(ServerTest, EchoedControlCharactersAddNoField) {
  start();
  TestSocket socket(server->port());
  socket.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  Held held_request = take_held();
  Response response = text_response(200, "ok");
  response.headers.add("X-Id", "a\r\nX-Evil: 1");
  held_request.responder->send(std::move(response));
  ASSERT_TRUE(socket.read_until("\r\n\r\nok"));
  EXPECT_THAT(socket.received, HasSubstr("X-Id: aX-Evil: 1\r\n"));
}

TEST_F(ServerTest, AnswersForAHandlerThatDropsTheRequest) {
  ServerOptions options;
  options.decorate = [](const Request&, Headers& headers) { headers.add("X-Added", "1"); };
  start(options);
  const std::string answer = exchange("GET /drop HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(answer, HasSubstr("X-Added: 1\r\n"));
  EXPECT_THAT(answer, HasSubstr("\"type\":\"internal_error\""));
}

TEST_F(ServerTest, AnswersFromOtherThreads) {
  ServerOptions options;
  options.io_threads = 2;
  start(options);
  std::jthread worker([this] {
    for (int i = 0; i < 100; ++i) {
      Held h = take_held();
      if (h.responder == nullptr) {
        return;
      }
      h.responder->send(text_response(200, "answer to " + h.request.query + "."));
    }
  });
  std::vector<std::unique_ptr<TestSocket>> sockets;
  for (int i = 0; i < 4; ++i) {
    sockets.push_back(std::make_unique<TestSocket>(server->port()));
  }
  for (int i = 0; i < 25; ++i) {
    for (auto& socket : sockets) {
      socket->send("GET /hold?" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    for (auto& socket : sockets) {
      ASSERT_TRUE(socket->read_until("answer to " + std::to_string(i) + "."));
    }
  }
}

// ---- shutdown

TEST_F(ServerTest, DrainWaitsForTheRunningResponseAndClosesIdleConnections) {
  start();
  TestSocket idle(server->port());
  TestSocket busy(server->port());
  busy.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  Held h = take_held();
  ASSERT_TRUE(wait_for_connections(2));
  EXPECT_FALSE(server->drain(std::chrono::steady_clock::now() + 20ms));
  EXPECT_EQ(idle.read_once(), "");
  EXPECT_TRUE(idle.ended());
  EXPECT_FALSE(TestSocket(server->port()).connected());

  h.responder->send(text_response(200, "last"));
  EXPECT_THAT(busy.read_all(), HasSubstr("Connection: close\r\n\r\nlast"));
  busy.close_now();
  EXPECT_TRUE(server->drain(std::chrono::steady_clock::now() + 5s));
  EXPECT_EQ(server->connections(), 0u);
}

// The thread is busy meanwhile: one client waits to be accepted, one has just been, the request of
// a third lies in its socket.
TEST_F(ServerTest, ClientsThatAreConnectedAtADrainAreAnswered) {
  BoundedQueue<int> go({1});
  BoundedQueue<int> busy({1});
  ServerOptions options;
  server = *Server::start("127.0.0.1:0", options,
                          [&](const Request& request, const std::shared_ptr<Responder>& responder) {
                            if (request.path == "/block") {
                              (void)busy.try_push(1);
                              (void)go.pop_until(std::chrono::steady_clock::now() + 5s);
                            }
                            responder->send(text_response(200, "answer"));
                          });
  TestSocket accepted(server->port()), keeps(server->port()), blocks(server->port());
  keeps.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(keeps.read_until("answer"));
  ASSERT_TRUE(wait_for_connections(3));
  blocks.send("GET /block HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(busy.pop_until(std::chrono::steady_clock::now() + 5s));
  TestSocket waits(server->port());
  ASSERT_TRUE(waits.connected());
  keeps.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  server->stop_accepting();
  (void)go.try_push(1);
  for (TestSocket* late : {&waits, &accepted, &keeps}) {
    if (late != &keeps) {
      late->send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    EXPECT_THAT(late->read_all(), HasSubstr("Connection: close\r\n\r\nanswer"));
    late->close_now();
  }
  EXPECT_THAT(blocks.read_all(), HasSubstr("answer"));
  blocks.close_now();
  EXPECT_FALSE(TestSocket(server->port()).connected());
  EXPECT_TRUE(server->drain(std::chrono::steady_clock::now() + 5s));
}

TEST_F(ServerTest, StopEndsRunningRequestsAndTellsTheirOwners) {
  start();
  TestSocket socket(server->port());
  socket.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  Held h = take_held();
  std::atomic<int> closed = 0;
  h.responder->on_close([&] { ++closed; });
  server->stop();
  EXPECT_EQ(closed, 1);
  EXPECT_FALSE(h.responder->alive());
  EXPECT_EQ(socket.read_all(), "");
  server->stop();  // twice is harmless
}

TEST_F(ServerTest, ResponderMayOutliveTheServer) {
  start();
  TestSocket socket(server->port());
  socket.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  Held h = take_held();
  server.reset();
  h.responder->begin_stream(200, {});
  EXPECT_FALSE(h.responder->write("late"));
  h.responder->finish();
  bool called = false;
  h.responder->on_close([&] { called = true; });
  EXPECT_TRUE(called);
}

TEST_F(ServerTest, StopsWhileRequestsKeepComing) {
  start();
  std::atomic<bool> stop = false;
  std::jthread load([&] {
    while (!stop) {
      TestSocket socket(server->port());
      if (!socket.connected() ||
          !socket.send("GET /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")) {
        return;
      }
      socket.read_all(1000);
    }
  });
  TestSocket first(server->port());
  first.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(first.read_until("GET /echo"));
  server->stop();
  stop = true;
}

}  // namespace
}  // namespace baton::http
