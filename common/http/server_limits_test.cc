#include <gmock/gmock.h>

#include "common/http/server_fixture.h"

namespace baton::http {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class ServerLimitsTest : public ServerTestBase {
 protected:
  // The status line's code; 0 when nothing came.
  int status_of(std::string_view bytes) {
    const std::string answer = exchange(bytes);
    return answer.size() > 12 ? std::stoi(answer.substr(9, 3)) : 0;
  }
};

TEST_F(ServerLimitsTest, AnswersARefusalAsJsonAndCloses) {
  start();
  const std::string answer = exchange("nonsense\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(answer, HasSubstr("\"type\":\"invalid_request_error\",\"param\":null,\"code\":null"));
}

TEST_F(ServerLimitsTest, RefusesBytesThatAreNoHttp) {
  start();
  const std::string tls = std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  EXPECT_EQ(status_of(tls), 400);  // without waiting for the end of a header
  EXPECT_EQ(status_of(std::string(200, '\0') + "\r\n\r\n"), 400);
  EXPECT_EQ(status_of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
  EXPECT_EQ(status_of("GET / HTTP/9.9\r\nHost: x\r\n\r\n"), 505);
  EXPECT_EQ(status_of("GET /\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / FOO/1.1\r\nHost: x\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\nHost: x\n\n"), 400);
  std::string empty_lines;
  for (int i = 0; i < 50; ++i) {
    empty_lines += "\r\n";
  }
  EXPECT_EQ(status_of(empty_lines + "x\r\n\r\n"), 400);
  EXPECT_EQ(status_of(empty_lines + "GET /echo HTTP/1.0\r\n\r\n"), 200);
}

TEST_F(ServerLimitsTest, RefusesMalformedHeaders) {
  start();
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: x\r\nX-A : b\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: x\r\nX-A: b\r\n c\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: x\r\nX-A: b\0c\r\n\r\n"s), 400);
}

TEST_F(ServerLimitsTest, RefusesLengthAndChunksTogether) {
  start();
  const std::string body = "\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
  const std::string head = "POST /echo HTTP/1.1\r\nHost: x\r\n";
  EXPECT_EQ(status_of(head + "Content-Length: 5\r\nTransfer-Encoding: chunked" + body), 400);
  EXPECT_EQ(status_of(head + "Transfer-Encoding: chunked\r\nContent-Length: 5" + body), 400);
}

TEST_F(ServerLimitsTest, RefusesLengthsThatMakeNoSense) {
  start();
  for (const char* length : {"-5", "many", "+3", "0x10", "99999999999999999999999", "", "1 2"}) {
    const std::string request =
        std::string("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: ") + length + "\r\n\r\nabc";
    EXPECT_EQ(status_of(request), 400) << length;
  }
  EXPECT_EQ(status_of("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: "
                      "4\r\n\r\nabcd"),
            400);
}

TEST_F(ServerLimitsTest, RefusesBrokenChunksAndUnknownCodings) {
  start();
  const std::string head = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: ";
  EXPECT_EQ(status_of(head + "chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"), 400);
  EXPECT_EQ(status_of(head + "chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n{}\r\n0\r\n\r\n"), 400);
  EXPECT_EQ(status_of(head + "chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n"), 400);
  EXPECT_EQ(status_of(head + "rot13\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), 501);
  EXPECT_EQ(status_of(head + "gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), 501);
  EXPECT_EQ(status_of("POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
  const std::string endless_extension(20'000, 'a');
  EXPECT_EQ(status_of(head + "chunked\r\n\r\n1;" + endless_extension), 400);
}

TEST_F(ServerLimitsTest, RefusesAnUnknownExpectation) {
  start();
  EXPECT_EQ(status_of("POST /echo HTTP/1.1\r\nHost: x\r\nExpect: more\r\n\r\n"), 417);
}

TEST_F(ServerLimitsTest, RefusesLargeHeaders) {
  start();
  EXPECT_EQ(status_of("GET /echo HTTP/1.1\r\nHost: x\r\nX-Big: " + std::string(262'144, 'a') +
                      "\r\n\r\n"),
            431);
  std::string many = "GET /echo HTTP/1.1\r\nHost: x\r\n";
  for (int i = 0; i < 20'000; ++i) {
    many += "X-" + std::to_string(i) + ": v\r\n";
  }
  EXPECT_EQ(status_of(many + "\r\n"), 431);
  EXPECT_EQ(status_of("GET /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Big: " +
                      std::string(15'000, 'a') + "\r\n\r\n"),
            200);
}

TEST_F(ServerLimitsTest, RefusesALongTarget) {
  start();
  EXPECT_EQ(status_of("GET /echo?" + std::string(262'144, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n"),
            414);
  EXPECT_EQ(status_of("GET /echo?" + std::string(8'190, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n"),
            414);
  EXPECT_EQ(status_of("GET /echo?" + std::string(8'000, 'a') + " HTTP/1.0\r\n\r\n"), 200);
}

TEST_F(ServerLimitsTest, RefusesALargeBodyBeforeItIsRead) {
  start();
  TestSocket socket(server->port());
  socket.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10737418240\r\n\r\n{");
  // A client that goes on sending still gets to read the answer.
  ASSERT_TRUE(socket.send(std::string(2 << 20, 'a')));
  const std::string answer = socket.read_all();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 413 Payload Too Large\r\n"));
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
}

TEST_F(ServerLimitsTest, DoesNotInviteALargeBody) {
  start();
  EXPECT_EQ(status_of("POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                      "Content-Length: 10737418240\r\n\r\n"),
            413);
}

TEST_F(ServerLimitsTest, RefusesChunksBeyondTheBodyLimit) {
  ServerOptions options;
  options.max_body_bytes = 1000;
  start(options);
  std::string request = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 3; ++i) {
    request += "190\r\n" + std::string(400, 'a') + "\r\n";
  }
  EXPECT_EQ(status_of(request), 413);
}

TEST_F(ServerLimitsTest, CutsOffASlowHeader) {
  ServerOptions options;
  options.header_timeout = 50ms;
  start(options);
  EXPECT_EQ(status_of("POST /echo HTTP/1.1\r\nHost: x\r\nX-Slow: "), 408);
}

TEST_F(ServerLimitsTest, CutsOffASlowBody) {
  ServerOptions options;
  options.body_timeout = 50ms;
  start(options);
  EXPECT_EQ(status_of("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"), 408);
}

TEST_F(ServerLimitsTest, ClosesIdleConnectionsSilently) {
  ServerOptions options;
  options.idle_timeout = 50ms;
  start(options);
  EXPECT_THAT(exchange(""), IsEmpty());
  TestSocket used(server->port());
  used.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(used.read_all(), HasSubstr("GET /echo"));
  EXPECT_TRUE(used.ended());
}

TEST_F(ServerLimitsTest, RefusesConnectionsBeyondTheLimit) {
  ServerOptions options;
  options.max_connections = 2;
  start(options);
  TestSocket a(server->port());
  TestSocket b(server->port());
  ASSERT_TRUE(wait_for_connections(2));
  const std::string answer = exchange("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(answer, HasSubstr("Retry-After: 1\r\n"));
  a.close_now();
  ASSERT_TRUE(wait_for_connections(1));
  EXPECT_EQ(status_of("GET /echo HTTP/1.0\r\n\r\n"), 200);
}

TEST_F(ServerLimitsTest, DecoratesItsOwnAnswers) {
  ServerOptions options;
  options.decorate = [](const Request& request, Headers& headers) {
    headers.add("X-Request-Id", std::string(request.headers.get("X-Request-Id", "new")));
  };
  start(options);
  EXPECT_THAT(exchange("nonsense\r\n\r\n"), HasSubstr("X-Request-Id: new\r\n"));
  EXPECT_THAT(exchange("POST / HTTP/1.1\r\nHost: x\r\nX-Request-Id: abc\r\nContent-Length: "
                       "99999999999\r\n\r\n"),
              HasSubstr("X-Request-Id: abc\r\n"));
}

TEST_F(ServerLimitsTest, SurvivesClientsThatVanish) {
  start();
  for (int i = 0; i < 50; ++i) {
    TestSocket socket(server->port());
    socket.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf");
    socket.reset();
  }
  EXPECT_EQ(status_of("GET /echo HTTP/1.0\r\n\r\n"), 200);
  EXPECT_TRUE(wait_for_connections(0));
}

}  // namespace
}  // namespace baton::http
