#include "deploy/baton/serve_bench/server_setup.h"

#include <gmock/gmock.h>

#include "common/http/error.h"
#include "common/http/server.h"
#include "deploy/baton/serve_bench/simulated_server.h"

namespace baton::serve_bench {
namespace {

using ::testing::HasSubstr;

TEST(ServerSetupTest, FindsTheApiBehindAUrl) {
  const auto api = [](const std::string& url) {
    const Result<ApiUrl> split = split_api_url(url);
    return split.ok() ? split->server + " " + split->api : split.status().message();
  };
  EXPECT_EQ(api("http://h:8000"), "http://h:8000 /v1");
  EXPECT_EQ(api("http://h:8000/"), "http://h:8000 /v1");
  EXPECT_EQ(api("http://h:8000/v1/"), "http://h:8000 /v1");
  EXPECT_EQ(api("http://h:8000/v3"), "http://h:8000 /v3");
  EXPECT_EQ(api("http://h/llm"), "http://h:80 /llm/v1");
  EXPECT_EQ(api("http://[::1]:1/a/v12?x=1"), "http://[::1]:1 /a/v12");
  EXPECT_FALSE(split_api_url("ftp://h").ok());
}

class FirstModelTest : public ::testing::Test {
 protected:
  void start(int status, std::string body) {
    auto started = http::Server::start(
        "127.0.0.1:0", {},
        [=](const http::Request& request, const std::shared_ptr<http::Responder>& responder) {
          const bool known = request.path == "/v1/models" &&
                             request.headers.get("Authorization", "none") == "Bearer key";
          responder->send(known ? http::json_response(status, body)
                                : http::error_response(unauthenticated("the key is wrong")));
        });
    ASSERT_TRUE(started.ok());
    server = *std::move(started);
  }
  std::unique_ptr<http::Server> server;
};

TEST_F(FirstModelTest, TakesTheFirstOfTheList) {
  start(200, R"({"object":"list","data":[{"id":"one"},{"id":"two"}]})");
  EXPECT_EQ(first_model(server->url(), "key").value(), "one");
  EXPECT_EQ(first_model(server->url(), "").status().message(),
            server->url() +
                "/v1/models: HTTP status 401: the key is wrong; give the server's key with "
                "--api-key-file FILE");
  EXPECT_EQ(first_model(server->url() + "/v2", "key").status().code(),
            StatusCode::kUnauthenticated);
}

TEST_F(FirstModelTest, SaysWhatIsWrong) {
  for (const char* body : {"{}", "[]", "x", R"({"data":[]})", R"({"data":[{"id":5}]})"}) {
    start(200, body);
    EXPECT_THAT(first_model(server->url(), "key").status().message(),
                HasSubstr("names no model; give one with --model NAME"))
        << body;
  }
  const std::string url = server->url();
  server->stop();
  EXPECT_THAT(first_model(url, "key").status().message(),
              HasSubstr("connection refused; is the server running?"));
}

TEST(ServerProbeTest, MeasuresWhatAWordIs) {
  SimulatedServer server;
  server.tokens_per_word = 1.5;
  server.overhead = 20;
  ServerProbe probe(server, 10s, [] { return false; });
  ServerSetup setup;
  setup.api = "/v1";
  const auto ready = probe.prepare(setup, 2000, PromptMaker(1));
  ASSERT_TRUE(ready.ok()) << ready.status().to_string();
  EXPECT_EQ(ready->path, "/v1/completions");
  EXPECT_NEAR(ready->scale.per_word, 1.5, 0.01);
  EXPECT_NEAR(ready->scale.overhead, 20, 0.5);
  EXPECT_EQ(probe.unmeasured().requests, 2u);
  EXPECT_TRUE(probe.settle(*ready, PromptMaker(1)).ok());
  EXPECT_EQ(probe.unmeasured().requests, 3u);
}

TEST(ServerProbeTest, AWordIsATokenUntilTheServerSaysOtherwise) {
  SimulatedServer server;
  server.counts = false;
  ServerProbe probe(server, 10s, [] { return false; });
  const auto ready = probe.prepare(ServerSetup(), 100, PromptMaker(1));
  ASSERT_TRUE(ready.ok());
  EXPECT_FALSE(ready->counts_prompts);
  EXPECT_EQ(ready->scale.per_word, 1);
}

}  // namespace
}  // namespace baton::serve_bench
