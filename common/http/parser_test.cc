#include "common/http/parser.h"

#include <gtest/gtest.h>

#include "common/base/random.h"

namespace baton::http {
namespace {

constexpr std::string_view kChunkedRequest =
    "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    "3\r\nabc\r\n10;e=1\r\n0123456789abcdef\r\n0\r\nT: 1\r\n\r\n";

// Feeds the text in the given pieces, keeping what is not taken, as a connection does.
ParseState feed_in_pieces(RequestParser& parser, std::string_view text, Random& random,
                          size_t longest) {
  std::string pending;
  while (!text.empty() && parser.state() != ParseState::kComplete &&
         parser.state() != ParseState::kFailed) {
    const size_t n = std::min<size_t>(text.size(), 1 + random.next() % longest);
    pending += text.substr(0, n);
    text.remove_prefix(n);
    size_t before = 0;
    do {
      before = pending.size();
      pending.erase(0, parser.feed(pending));
    } while (!pending.empty() && pending.size() != before &&
             parser.state() != ParseState::kComplete && parser.state() != ParseState::kFailed);
  }
  return parser.state();
}

TEST(ParserTest, ReadsTheSameRequestHoweverItIsCut) {
  SeededRandom random(1);
  for (int round = 0; round < 300; ++round) {
    RequestParser parser({});
    ASSERT_EQ(feed_in_pieces(parser, kChunkedRequest, random, 1 + round % 40),
              ParseState::kComplete)
        << "round " << round;
    EXPECT_EQ(parser.request().body, "abc0123456789abcdef");
    EXPECT_EQ(parser.request().headers.size(), 2u) << "trailers are no headers";
  }
}

// The last chunk is the first, and comes in two pieces, cut anywhere.
TEST(ParserTest, ReadsAnEmptyChunkedBodyHoweverItIsCut) {
  const std::string request =
      "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
  const std::string response = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
  const auto feed = [](auto& parser, const std::string& text, size_t first, size_t second) {
    for (const size_t end : {first, second, text.size()}) {
      size_t more = 1;
      while (more > 0 && parser.taken < end) {
        more = parser.parser.feed(std::string_view(text).substr(parser.taken, end - parser.taken));
        parser.taken += more;
      }
    }
    return parser.parser.state();
  };
  struct Requests {
    RequestParser parser{{}};
    size_t taken = 0;
  };
  struct Responses {
    ResponseParser parser{false, {}, [](std::string_view) { return true; }};
    size_t taken = 0;
  };
  for (size_t first = 1; first < request.size(); ++first) {
    for (size_t second = first; second < request.size(); ++second) {
      Requests requests;
      EXPECT_EQ(feed(requests, request, first, second), ParseState::kComplete) << first;
    }
  }
  for (size_t first = 1; first < response.size(); ++first) {
    for (size_t second = first; second < response.size(); ++second) {
      Responses responses;
      EXPECT_EQ(feed(responses, response, first, second), ParseState::kComplete) << first;
    }
  }
}

TEST(ParserTest, SurvivesMutatedRequests) {
  SeededRandom random(2);
  for (int round = 0; round < 20'000; ++round) {
    std::string text(kChunkedRequest);
    for (uint64_t i = random.next() % 4 + 1; i > 0; --i) {
      text[random.next() % text.size()] = static_cast<char>(random.next());
    }
    RequestParser parser({});
    feed_in_pieces(parser, text, random, 64);
    if (parser.state() == ParseState::kFailed) {
      EXPECT_GE(parser.failure().http_status, 400);
      EXPECT_FALSE(parser.failure().message.empty());
    }
  }
}

TEST(ParserTest, LeavesBytesOfTheNextRequest) {
  RequestParser parser({});
  const std::string first = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  EXPECT_EQ(parser.feed(first + "GET /2 HTTP/1.1\r\n"), first.size());
  EXPECT_EQ(parser.state(), ParseState::kComplete);
  EXPECT_TRUE(parser.keep_alive());
}

TEST(ParserTest, StopsOnceAtTheEndOfTheHeader) {
  RequestParser parser({});
  const std::string head =
      "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
  EXPECT_EQ(parser.feed(head + "ab"), head.size());
  EXPECT_EQ(parser.state(), ParseState::kBody);
  EXPECT_TRUE(parser.expects_continue());
  EXPECT_EQ(parser.feed("ab"), 2u);
  EXPECT_EQ(parser.state(), ParseState::kComplete);
  EXPECT_EQ(parser.request().body, "ab");
}

TEST(ParserTest, ReadsResponses) {
  std::string body;
  int heads = 0;
  ResponseParser parser(
      false, [&](const Response& head) { heads += head.status; },
      [&](std::string_view bytes) {
        body += bytes;
        return true;
      });
  parser.feed("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_EQ(parser.state(), ParseState::kComplete);
  EXPECT_EQ(heads, 200);
  EXPECT_EQ(body, "abc");
  EXPECT_TRUE(parser.keep_alive());
}

TEST(ParserTest, TellsACutResponseFromOneThatEndsWithTheConnection) {
  const auto keep = [](std::string_view) { return true; };
  ResponseParser ends(false, {}, keep);
  ends.feed("HTTP/1.0 200 OK\r\n\r\nabc");
  EXPECT_EQ(ends.state(), ParseState::kBody);
  ends.feed_end();
  EXPECT_EQ(ends.state(), ParseState::kComplete);

  ResponseParser cut(false, {}, keep);
  cut.feed("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
  cut.feed_end();
  EXPECT_EQ(cut.state(), ParseState::kFailed);

  ResponseParser nothing(false, {}, keep);
  nothing.feed_end();
  EXPECT_EQ(nothing.failure().message, "the connection was closed before the answer");
}

TEST(ParserTest, StopsWhenTheReaderSaysSo) {
  ResponseParser parser(false, {}, [](std::string_view) { return false; });
  parser.feed("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_EQ(parser.state(), ParseState::kFailed);
  EXPECT_TRUE(parser.stopped());
}

}  // namespace
}  // namespace baton::http
