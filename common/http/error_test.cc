#include "common/http/error.h"

#include <gmock/gmock.h>

#include "common/http/address.h"

namespace baton::http {
namespace {

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(ErrorTest, HasTheShapeThatClientsRead) {
  EXPECT_EQ(error_json({400, "too long", "invalid_request_error", "prompt", "some_code"}),
            R"({"error":{"message":"too long","type":"invalid_request_error",)"
            R"("param":"prompt","code":"some_code"}})");
}

TEST(ErrorTest, MapsStatusCodes) {
  const Response bad = error_response(invalid_argument("no"), "n");
  EXPECT_EQ(bad.status, 400);
  EXPECT_THAT(bad.body, testing::HasSubstr(R"("param":"n","code":null)"));
  const Response lost = error_response(worker_lost("d0 is gone"));
  EXPECT_EQ(lost.status, 503);
  EXPECT_EQ(lost.headers.get("retry-after"), "1");
  EXPECT_THAT(lost.body, testing::HasSubstr(R"("code":"worker_lost")"));
  const Response key = error_response(unauthenticated("no key"), {}, "invalid_api_key");
  EXPECT_EQ(key.status, 401);
  EXPECT_EQ(key.headers.get("WWW-Authenticate"), "Bearer");
  EXPECT_THAT(key.body, testing::HasSubstr(R"("code":"invalid_api_key")"));
  EXPECT_THAT(error_response(unsupported("no")).body, testing::HasSubstr(R"("code":null)"));
}

TEST(ErrorTest, EscapesWhatJsonAndLineReadersNeed) {
  EXPECT_EQ(json_string("a\"b\\c\n\r\t\x01\x7f"), R"("a\"b\\c\n\r\t\u0001\u007f")");
  EXPECT_EQ(json_string("\xC2\x85\xE2\x80\xA8\xE2\x80\xA9"), R"("\u0085\u2028\u2029")");
  EXPECT_EQ(json_string("ä€😀"), "\"ä€😀\"");
  EXPECT_EQ(json_string(std::string_view("\0", 1)), R"("\u0000")");
}

TEST(ErrorTest, ReplacesBytesThatAreNotUtf8) {
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(json_string("a\xFFz"), "\"a" + bad + "z\"");
  EXPECT_EQ(json_string("\xC0\xAF"), "\"" + bad + bad + "\"");            // overlong
  EXPECT_EQ(json_string("\xED\xA0\x80"), "\"" + bad + bad + bad + "\"");  // surrogate
  EXPECT_EQ(json_string("\xE6\xBC"), "\"" + bad + bad + "\"");            // cut
  EXPECT_EQ(json_string("\xF5\x80\x80\x80"), "\"" + bad + bad + bad + bad + "\"");
}

TEST(AddressTest, ReadsHostAndPort) {
  EXPECT_EQ(parse_host_port("127.0.0.1:80")->port, 80);
  EXPECT_EQ(parse_host_port("[::1]:8000")->host, "::1");
  EXPECT_EQ(to_string(*parse_host_port("[::1]:8000")), "[::1]:8000");
  for (const char* bad : {"", "80", "host", "host:", ":80", "host:x", "host:65536", "::1:80",
                          "a b:80", "host:-1", "http://host:80"}) {
    EXPECT_FALSE(parse_host_port(bad).ok()) << bad;
  }
  EXPECT_EQ(parse_host_port("8000").status().message(),
            "\"8000\" is not an address; write host:port, for example 127.0.0.1:8000 or "
            "[::1]:8000");
}

TEST(AddressTest, ReadsUrls) {
  const Result<Url> url = parse_url("http://[::1]:81/a/b?c=d#e");
  ASSERT_TRUE(url.ok());
  EXPECT_EQ(url->server.host, "::1");
  EXPECT_EQ(url->server.port, 81);
  EXPECT_EQ(url->target, "/a/b?c=d");
  EXPECT_EQ(parse_url("http://host")->target, "/");
  EXPECT_EQ(parse_url("http://host")->server.port, 80);
  EXPECT_EQ(parse_url("http://host?x")->target, "/?x");
  EXPECT_FALSE(parse_url("http://host/")->tls);
  EXPECT_TRUE(parse_url("https://host/")->tls);
  EXPECT_EQ(origin(*parse_url("https://host/x")), "https://host:443");
  EXPECT_EQ(origin(*parse_url("http://[::1]:8/x")), "http://[::1]:8");
  EXPECT_FALSE(parse_url("ftp://host/").ok());
  EXPECT_FALSE(parse_url("http:///x").ok());
  EXPECT_FALSE(parse_url("http://host/a b").ok());
}

TEST(ErrorTest, QuotesOnlyTheBeginningOfWhatIsLong) {
  ApiError error{400, "'a': " + std::string(20'000, '('), "invalid_request_error",
                 std::string(300, 'p'), ""};
  EXPECT_EQ(error_json(error), "{\"error\":{\"message\":\"'a': " + std::string(995, '(') +
                                   "...\",\"type\":\"invalid_request_error\",\"param\":\"" +
                                   std::string(200, 'p') + "...\",\"code\":null}}");
  error.message = std::string(999, 'a') + "\xC3\xA9\xC3\xA9";  // no half of a character
  error.param.clear();
  EXPECT_EQ(error_json(error), "{\"error\":{\"message\":\"" + std::string(999, 'a') +
                                   "...\",\"type\":\"invalid_request_error\",\"param\":null,"
                                   "\"code\":null}}");
  error.message = std::string(1000, '\x80');
  EXPECT_NE(error_json(error).find("\xEF\xBF\xBD\""), std::string::npos);
}

TEST(MessageTest, FindsHeadersInAnyCase) {
  Headers headers{{"Connection", "keep-alive, Upgrade"}, {"A", "1"}, {"a", "2"}};
  EXPECT_EQ(headers.get("a"), "1");
  EXPECT_EQ(headers.get("b", "none"), "none");
  EXPECT_EQ(headers.count("A"), 2u);
  EXPECT_TRUE(headers.has_token("connection", "upgrade"));
  EXPECT_FALSE(headers.has_token("connection", "up"));
  headers.set("a", "3");
  EXPECT_EQ(headers.count("A"), 1u);
  EXPECT_EQ(headers.get("A"), "3");
}

}  // namespace
}  // namespace baton::http
