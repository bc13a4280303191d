#pragma once

// A server on any port with a handler that tests script by path.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "common/base/bounded_queue.h"
#include "common/http/error.h"
#include "common/http/server.h"
#include "common/http/test_socket.h"

namespace baton::http {

struct Held {
  Request request;
  std::shared_ptr<Responder> responder;
};

// /echo answers with method, path, query and body; /big with a body of 1 MiB; /drop not at all;
// /hold gives request and responder to the test; /burst writes a stream whose pieces are all ready
// at once, their number and length in the body as "3x10".
class ServerTestBase : public ::testing::Test {
 protected:
  void start(ServerOptions options = {}) {
    Result<std::unique_ptr<Server>> started =
        Server::start("127.0.0.1:0", std::move(options),
                      [this](Request request, std::shared_ptr<Responder> responder) {
                        handle(std::move(request), std::move(responder));
                      });
    ASSERT_TRUE(started.ok()) << started.status().to_string();
    server = *std::move(started);
  }

  void handle(Request request, std::shared_ptr<Responder> responder) {
    if (request.path == "/hold") {
      (void)held.try_push(Held{std::move(request), std::move(responder)});
    } else if (request.path == "/big") {
      responder->send(text_response(200, std::string(1 << 20, 'b')));
    } else if (request.path == "/burst") {
      burst(request.body, *responder);
    } else if (request.path != "/drop") {
      std::string text = request.method + " " + request.path + " " + request.query + " ";
      responder->send(text_response(200, text + request.body));
    }
  }

  static void burst(const std::string& body, Responder& responder) {
    const size_t cross = body.find('x');
    responder.begin_stream(200, {});
    for (int i = 0; i < std::stoi(body.substr(0, cross)); ++i) {
      responder.write(std::string(std::stoul(body.substr(cross + 1)), 'e'));
    }
    responder.finish();
  }

  Held take_held() {
    std::optional<Held> taken = held.pop_until(std::chrono::steady_clock::now() + 5s);
    EXPECT_TRUE(taken.has_value()) << "no request arrived";
    return taken ? *std::move(taken) : Held{};
  }

  // Sends, then returns all that comes until the server closes.
  std::string exchange(std::string_view bytes) {
    TestSocket socket(server->port());
    EXPECT_TRUE(socket.connected());
    socket.send(bytes);
    return socket.read_all();
  }

  bool wait_for_connections(size_t count) {
    const TimePoint deadline = std::chrono::steady_clock::now() + 5s;
    while (server->connections() != count) {
      if (std::chrono::steady_clock::now() > deadline) {
        return false;
      }
      std::this_thread::yield();
    }
    return true;
  }

  BoundedQueue<Held> held{QueueLimits{64}};
  std::unique_ptr<Server> server;  // last: its threads use the queue
};

}  // namespace baton::http
