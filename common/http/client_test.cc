#include "common/http/client.h"

#include <gmock/gmock.h>
#include <sys/eventfd.h>

#include <future>
#include <thread>

#include "common/http/server_fixture.h"

namespace baton::http {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ClientTest : public ServerTestBase {};

TEST_F(ClientTest, GetsAndPostsOverOneConnection) {
  start();
  Client client;
  for (int i = 0; i < 3; ++i) {
    const Result<Response> got = client.get(server->url() + "/echo?x=1");
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    EXPECT_EQ(got->status, 200);
    EXPECT_EQ(got->body, "GET /echo x=1 ");
    const Result<Response> posted = client.post(server->url() + "/echo", "body");
    ASSERT_TRUE(posted.ok());
    EXPECT_EQ(posted->body, "POST /echo  body");
  }
  EXPECT_EQ(server->connections(), 1u);
}

TEST_F(ClientTest, SendsHeadWithoutWaitingForABody) {
  start();
  Client client;
  ClientRequest request{"HEAD", server->url() + "/big", {}, {}};
  const Result<Response> response = client.request(request);
  ASSERT_TRUE(response.ok()) << response.status().to_string();
  EXPECT_EQ(response->headers.get("Content-Length"), "1048576");
  EXPECT_EQ(response->body, "");
}

TEST_F(ClientTest, ReconnectsWhenTheServerClosedTheIdleConnection) {
  ServerOptions options;
  options.idle_timeout = 20ms;
  start(options);
  Client client;
  ASSERT_TRUE(client.get(server->url() + "/echo").ok());
  ASSERT_TRUE(wait_for_connections(0));
  EXPECT_TRUE(client.get(server->url() + "/echo").ok());
}

TEST_F(ClientTest, NamesTheUrlThatRefuses) {
  start();
  const std::string url = server->url() + "/health";
  server->stop();
  const Result<Response> response = Client().get(url);
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(response.status().message(), url + ": connection refused; is the server running?");
}

TEST_F(ClientTest, RefusesUrlsThatItCannotServe) {
  EXPECT_EQ(Client().get("ftp://host/").status().code(), StatusCode::kInvalidArgument);
}

TEST_F(ClientTest, KeepsItsDeadline) {
  start();
  ClientOptions options;
  options.timeout = 50ms;
  const Result<Response> response = Client(options).get(server->url() + "/hold");
  EXPECT_EQ(response.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(response.status().message(), StartsWith(server->url()));
}

TEST_F(ClientTest, CanBeCancelledFromAnotherThread) {
  start();
  Client client;
  std::future<Result<Response>> response =
      std::async(std::launch::async, [&] { return client.get(server->url() + "/hold"); });
  const Held h = take_held();
  client.cancel();
  EXPECT_EQ(response.get().status().code(), StatusCode::kCancelled);
  EXPECT_EQ(client.get(server->url() + "/echo").status().code(), StatusCode::kCancelled);
}

TEST_F(ClientTest, IsInterruptedByADescriptorAndUsableAfterwards) {
  start();
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  Client client({.interrupt_fd = fd});
  std::string received;
  ClientRequest request{"GET", server->url() + "/hold", {}, {}};
  std::jthread answer([this] {
    Held taken = take_held();
    taken.responder->begin_stream(200, {});
    while (taken.responder->write("more")) {
      std::this_thread::yield();
    }
  });
  const Result<Response> interrupted = client.stream(request, {}, [&](std::string_view bytes) {
    received += bytes;
    eventfd_write(fd, 1);
    return true;
  });
  EXPECT_EQ(interrupted.status().code(), StatusCode::kCancelled);
  EXPECT_THAT(received, StartsWith("more"));
  answer.join();  // the server has seen that the connection is closed
  eventfd_t count = 0;
  eventfd_read(fd, &count);
  EXPECT_TRUE(client.get(server->url() + "/echo").ok());
  close(fd);
}

TEST_F(ClientTest, StreamsTheBodyAsItComes) {
  start();
  Client client;
  std::jthread producer([this] {
    Held h = take_held();
    h.responder->begin_stream(201, {{"X-A", "b"}});
    for (int i = 0; i < 5; ++i) {
      h.responder->write("event " + std::to_string(i) + "\n");
    }
    h.responder->finish();
  });
  std::string all;
  int status = 0;
  const Result<Response> response = client.stream(
      {"GET", server->url() + "/hold", {}, {}}, [&](const Response& head) { status = head.status; },
      [&](std::string_view bytes) {
        EXPECT_EQ(status, 201) << "the head comes first";
        all += bytes;
        return true;
      });
  ASSERT_TRUE(response.ok()) << response.status().to_string();
  EXPECT_EQ(all, "event 0\nevent 1\nevent 2\nevent 3\nevent 4\n");
  EXPECT_EQ(response->headers.get("X-A"), "b");
}

TEST_F(ClientTest, StopsAStreamWhenTheReaderHasEnough) {
  start();
  Client client;
  std::jthread producer([this] {
    Held h = take_held();
    h.responder->begin_stream(200, {});
    h.responder->write("first");
    while (h.responder->write("more")) {
      std::this_thread::yield();
    }
  });
  const Result<Response> response = client.stream({"GET", server->url() + "/hold", {}, {}}, {},
                                                  [](std::string_view) { return false; });
  EXPECT_EQ(response.status().code(), StatusCode::kCancelled);
}

TEST_F(ClientTest, ReportsACutStream) {
  start();
  Client client;
  std::jthread producer([this] {
    Held h = take_held();
    h.responder->begin_stream(200, {});
    h.responder->write("first");
    // Nothing says that the client has read it; what counts is that the end is missing.
  });
  const Result<Response> response = client.get(server->url() + "/hold");
  EXPECT_EQ(response.status().code(), StatusCode::kUnavailable);
}

TEST_F(ClientTest, BoundsWhatItCollects) {
  start();
  ClientOptions options;
  options.max_body_bytes = 1000;
  const Result<Response> response = Client(options).get(server->url() + "/big");
  EXPECT_EQ(response.status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace baton::http
