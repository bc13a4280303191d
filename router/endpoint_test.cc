#include "router/endpoint.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "common/http/client.h"
#include "common/wire/sockets.h"
#include "router/router_fixture.h"

namespace baton::router {
namespace {

// The whole router but its main(), and one decode worker that says "ab" and stops.
class EndpointTest : public testing::Test {
 protected:
  EndpointTest() : chat_(ChatPrompt::create(tokenizer_, {}).value()) {
    EXPECT_EQ(pipe2(stop_pipe_, O_NONBLOCK | O_CLOEXEC), 0);
    config_.router.local_prefill = config::LocalPrefill::kAlways;
    config_.router.worker_timeout = 30s;
  }
  ~EndpointTest() override {
    const signalfd_siginfo info{};
    EXPECT_EQ(write(stop_pipe_[1], &info, sizeof(info)), static_cast<ssize_t>(sizeof(info)));
    loop_thread_.join();
    worker_stop_ = true;
    if (worker_thread_.joinable()) {
      worker_thread_.join();
    }
    server_->stop();
    close(stop_pipe_[0]);
    close(stop_pipe_[1]);
  }

  void start(const std::vector<std::string>& keys = {}, bool with_worker = true) {
    wire::Listener listener = wire::Listener::bind(context_, "tcp://127.0.0.1:*").value();
    const std::string control = listener.address();
    loop_ =
        std::make_unique<RouterLoop>(RouterLoop::Options{.config = &config_,
                                                         .incarnation = Incarnation{55},
                                                         .stop_fd = stop_pipe_[0],
                                                         .on_drain = [] {}},
                                     clock_, random_, tokenizer_, std::move(listener), registry_);
    std::string path;
    if (!keys.empty()) {
      path = testing::TempDir() + "endpoint-keys-" + std::to_string(getpid());
      std::ofstream file(path);
      for (const std::string& key : keys) {
        file << key << '\n';
      }
    }
    api_keys_ = ApiKeys::open(path, clock_).value();
    endpoint_ = std::make_unique<Endpoint>(Endpoint::Options{.config = &config_.router,
                                                             .api_keys = api_keys_.get(),
                                                             .model = {"org/tiny", &tokenizer_},
                                                             .started_unix = 1700},
                                           chat_, *loop_, registry_, clock_, random_);
    server_ = http::Server::start(
                  "127.0.0.1:0", {},
                  [this](http::Request request, std::shared_ptr<http::Responder> responder) {
                    endpoint_->handle(std::move(request), responder);
                  })
                  .value();
    loop_thread_ = std::thread([this] { loop_->run(); });
    if (with_worker) {
      worker_thread_ = std::thread([this, control] { decode_worker(control); });
      while (!loop_->health().ready) {
        std::this_thread::yield();
      }
    }
  }

  void decode_worker(const std::string& control) {
    wire::Connection connection = wire::Connection::connect(context_, control).value();
    wire::WorkerInfo info = worker_info(wire::Role::kDecode, 0);
    info.http_url = "http://192.0.2.1:9400";
    EXPECT_TRUE(connection.send(wire::Register{info}).ok());
    while (!worker_stop_) {
      const std::optional<wire::Received> received = connection.receive();
      if (!received) {
        const int fd = connection.poll_fd();
        wire::wait_readable({&fd, 1}, clock_.now() + 10ms);
        continue;
      }
      const auto* run = std::get_if<wire::Run>(&*received->message);
      whole_blocks_ = run != nullptr ? run->body.whole_blocks : whole_blocks_.load();
      for (uint32_t choice = 0; run != nullptr && choice < run->body.choices.size(); ++choice) {
        wire::Tokens tokens;
        tokens.key = run->body.key;
        tokens.from = info.incarnation;
        tokens.choice = choice;
        tokens.ids = tokenizer_.encode("ab");
        tokens.ids.push_back(tokenizer_.end_ids()[0]);
        tokens.finish = wire::FinishReason::kStop;
        EXPECT_TRUE(connection.send(tokens).ok());
      }
    }
  }

  http::Response ask(std::string method, const std::string& path, std::string body = "",
                     http::Headers headers = {}) {
    const Result<http::Response> got = client_.request(
        {std::move(method), server_->url() + path, std::move(headers), std::move(body)});
    EXPECT_TRUE(got.ok()) << got.status().to_string();
    return got.ok() ? *got : http::Response{};
  }
  static boost::json::value error(const http::Response& response) {
    const boost::json::value error = json(response.body).at("error");
    EXPECT_EQ(error.as_object().size(), 4u) << response.body;
    return error;
  }

  static constexpr const char* kCompletions = "/v1/completions";
  static constexpr const char* kChat = "/v1/chat/completions";

  config::Config config_ = config::default_config();
  const SteadyClock clock_;
  SeededRandom random_{1};
  const tokenizer::Tokenizer tokenizer_ = tiny_tokenizer();
  const ChatPrompt chat_;
  metrics::Registry registry_{{.program = metrics::kByRouter, .model_name = "tiny", .worker = ""}};
  wire::Context context_;
  int stop_pipe_[2] = {-1, -1};
  std::unique_ptr<RouterLoop> loop_;
  std::unique_ptr<ApiKeys> api_keys_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<http::Server> server_;
  std::thread loop_thread_;
  std::thread worker_thread_;
  std::atomic<bool> worker_stop_{false};
  std::atomic<bool> whole_blocks_{false};  // as the last run said
  http::Client client_;
};

TEST_F(EndpointTest, CompletesWholeAndStreamed) {
  start();
  const http::Response whole = ask("POST", kCompletions, R"({"prompt":"x"})");
  ASSERT_EQ(whole.status, 200) << whole.body;
  EXPECT_EQ(whole.headers.get("Content-Type"), "application/json");
  const boost::json::value got = json(whole.body);
  EXPECT_TRUE(got.at("id").as_string().starts_with("cmpl-"));
  EXPECT_EQ(got.at("model"), "org/tiny");
  EXPECT_EQ(got.at("choices").at(0).at("text"), "ab");
  const http::Response stream =
      ask("POST", kCompletions, R"({"prompt":"x","stream":true,"model":"org/tiny"})");
  EXPECT_EQ(stream.headers.get("Content-Type"), "text/event-stream");
  std::string text;
  for (const std::string& event : events(stream.body)) {
    text += event == "[DONE]" ? "" : json(event).at("choices").at(0).at("text").as_string().c_str();
  }
  EXPECT_EQ(text, "ab");
}

TEST_F(EndpointTest, Chats) {
  start();
  const http::Response whole =
      ask("POST", kChat, R"({"messages":[{"role":"user","content":"x"}],"n":2})");
  ASSERT_EQ(whole.status, 200) << whole.body;
  EXPECT_EQ(json(whole.body).at("choices").at(1).at("message").at("content"), "ab");
  EXPECT_TRUE(json(whole.body).at("id").as_string().starts_with("chatcmpl-"));
}

TEST_F(EndpointTest, NamesFieldsThatItIgnored) {
  start();
  const http::Response got = ask("POST", kCompletions, R"({"prompt":"x","zoom":1,"foo":2})");
  EXPECT_EQ(got.headers.get("x-baton-ignored"), "zoom, foo");
  EXPECT_EQ(registry_.counter(metrics::MetricId::kIgnoredRequestFields, {"zoom"}).value(), 1);
}

TEST_F(EndpointTest, APriorityCountsOnlyWithAKeyThatMaySetIt) {
  start({"usual", "urgent priority"});
  const auto ignored = [this](const std::string& key, const std::string& priority) {
    const http::Response got =
        ask("POST", kCompletions, R"({"prompt":"x","zoom":1,"priority":)" + priority + "}",
            {{"Authorization", "Bearer " + key}});
    EXPECT_EQ(got.status, 200) << got.body;
    return std::string(got.headers.get("x-baton-ignored"));
  };
  EXPECT_EQ(ignored("urgent", "-5"), "zoom");
  EXPECT_EQ(ignored("usual", "-5"), "priority, zoom");
  EXPECT_EQ(ignored("usual", "0"), "zoom") << "asks for nothing";
  EXPECT_EQ(registry_.counter(metrics::MetricId::kIgnoredRequestFields, {"priority"}).value(), 1);
}

TEST_F(EndpointTest, ClientsWithDifferentKeysShareWholeBlocksOnly) {
  start({"one", "other"});
  const http::Headers key = {{"Authorization", "Bearer one"}};
  EXPECT_EQ(ask("POST", kCompletions, R"({"prompt":"x"})", key).status, 200);
  EXPECT_TRUE(whole_blocks_);
}

TEST_F(EndpointTest, ClientsWithOneKeyOrNoneSharePartsOfBlocks) {
  start({"one"});
  const http::Headers key = {{"Authorization", "Bearer one"}};
  whole_blocks_ = true;
  EXPECT_EQ(ask("POST", kCompletions, R"({"prompt":"x"})", key).status, 200);
  EXPECT_FALSE(whole_blocks_);
}

TEST_F(EndpointTest, RefusesBadRequestsInTheShapeOfTheApi) {
  start();
  http::Response got = ask("POST", kCompletions, "{");
  EXPECT_EQ(got.status, 400);
  EXPECT_EQ(error(got).at("type"), "invalid_request_error");
  EXPECT_TRUE(error(got).at("param").is_null());
  got = ask("POST", kCompletions, R"({"prompt":"x","temperature":9})");
  EXPECT_EQ(got.status, 400);
  EXPECT_EQ(error(got).at("param"), "temperature");
  got = ask("POST", kChat, R"({"messages":[{"role":"user","content":5}],"stream":true})");
  EXPECT_EQ(got.status, 400);
  EXPECT_EQ(error(got).at("param"), "messages.content");
  got = ask("POST", kCompletions, R"({"prompt":"x","model":"other"})");
  EXPECT_EQ(got.status, 404);
  EXPECT_EQ(error(got).at("code"), "model_not_found");
  EXPECT_EQ(error(got).at("message"),
            "the model 'other' does not exist; this server serves 'org/tiny'");
}

TEST_F(EndpointTest, RefusesWhatDoesNotFitTheContext) {
  start();
  std::string ids = "5";
  for (int i = 1; i < 512; ++i) {
    ids += ",5";
  }
  http::Response got = ask("POST", kCompletions, "{\"prompt\":[" + ids + "],\"max_tokens\":1}");
  EXPECT_EQ(got.status, 400);
  EXPECT_EQ(error(got).at("code"), "context_length_exceeded");
  EXPECT_EQ(error(got).at("param"), "prompt");
  EXPECT_EQ(
      error(got).at("message"),
      "This model's maximum context length is 512 tokens, but the request asks for 513 tokens "
      "(512 in the prompt, 1 for the answer)");
  got = ask("POST", kCompletions, R"({"prompt":[5],"max_tokens":512})");
  EXPECT_EQ(got.status, 400);
  got = ask("POST", kCompletions, R"({"prompt":[5],"max_tokens":511})");
  EXPECT_EQ(got.status, 200);
  got = ask("POST", kChat,
            R"({"stream":true,"messages":[{"role":"user","content":")" + std::string(3000, 'z') +
                "\"}]}");
  EXPECT_EQ(got.status, 400);
  EXPECT_EQ(error(got).at("code"), "context_length_exceeded");
}

// What the router writes about a prompt grows with tokens, choices and alternatives.
TEST_F(EndpointTest, RefusesMoreLogprobsOfAPromptThanItCanTell) {
  start();
  std::string ids = "5";
  for (int i = 1; i < 500; ++i) {
    ids += ",5";
  }
  const std::string prompt = "{\"prompt\":[" + ids + "],\"max_tokens\":1,";
  http::Response got =
      ask("POST", kCompletions, prompt + R"("prompt_logprobs":20,"n":128,"temperature":1})");
  EXPECT_EQ(got.status, 400);
  EXPECT_EQ(error(got).at("param"), "prompt_logprobs");
  got = ask("POST", kCompletions, prompt + R"("echo":true,"logprobs":4,"stream":true,"n":21})");
  EXPECT_EQ(got.status, 400);
  EXPECT_EQ(error(got).at("param"), "echo");
}

TEST_F(EndpointTest, ListsTheModel) {
  start();
  const boost::json::value list = json(ask("GET", "/v1/models").body);
  EXPECT_EQ(list.at("data").at(0),
            json(R"({"id":"org/tiny","object":"model","created":1700,"owned_by":"baton",
                     "max_model_len":512})"));
  EXPECT_EQ(json(ask("GET", "/v1/models/org/tiny").body).at("id"), "org/tiny");
  EXPECT_EQ(ask("GET", "//v1//models/").status, 200);
  const http::Response unknown = ask("GET", "/v1/models/nope");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(error(unknown).at("code"), "model_not_found");
  EXPECT_EQ(ask("DELETE", "/v1/models/org/tiny").status, 405);
}

TEST_F(EndpointTest, NamesTheMethodsThatAPathTakes) {
  start();
  for (const std::string path : {"/v1/completions", "/v1/chat/completions", "/tokenize"}) {
    const http::Response got = ask("GET", path);
    EXPECT_EQ(got.status, 405);
    EXPECT_EQ(got.headers.get("Allow"), "POST");
    EXPECT_EQ(error(got).at("message"), "this path takes POST");
  }
  for (const std::string path : {"/health", "/metrics", "/v1/models"}) {
    const http::Response got = ask("POST", path, "{}");
    EXPECT_EQ(got.status, 405) << path;
    EXPECT_EQ(got.headers.get("Allow"), "GET, HEAD");
  }
  EXPECT_EQ(ask("HEAD", "/v1/models").status, 200);
  EXPECT_EQ(ask("HEAD", "/health").status, 200);
  EXPECT_EQ(ask("GET", "/nowhere").status, 404);
  EXPECT_EQ(ask("POST", "/v1/completions/more", "{}").status, 404);
}

TEST_F(EndpointTest, TokenizesAndTellsOfTheTokenizer) {
  start();
  EXPECT_EQ(json(ask("POST", "/tokenize", R"({"content":"a"})").body).at("max_model_len"), 512);
  EXPECT_EQ(json(ask("POST", "/detokenize", R"({"tokens":[]})").body).at("prompt"), "");
  EXPECT_EQ(ask("GET", "/tokenizer_info").status, 200);
}

TEST_F(EndpointTest, AnswersProbesByState) {
  start({}, false);
  while (loop_->health().last_turn_ns == 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(ask("GET", "/livez").status, 200);
  for (const std::string path : {"/health", "/readyz"}) {
    const http::Response got = ask("GET", path);
    EXPECT_EQ(got.status, 503);
    EXPECT_EQ(error(got).at("message"), "no worker is ready yet");
  }
  EXPECT_EQ(ask("POST", kCompletions, R"({"prompt":"x"})").status, 503);
  worker_thread_ = std::thread([] {});
}

TEST_F(EndpointTest, ExportsMetricsAndStatus) {
  start();
  const http::Response metrics = ask("GET", "/metrics");
  EXPECT_EQ(metrics.headers.get("Content-Type"), metrics::Registry::kContentType);
  EXPECT_NE(metrics.body.find("vllm:time_to_first_token_seconds"), std::string::npos);
  EXPECT_EQ(json(ask("GET", "/baton/status").body).at("workers").as_array().size(), 1u);
}

TEST_F(EndpointTest, ListsTheWorkersAsTargetsOfPrometheus) {
  start();
  const http::Response got = ask("GET", "/metrics/targets");
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.headers.get("Content-Type"), "application/json");
  EXPECT_EQ(got.body, R"([{"targets":["192.0.2.1:9400"],"labels":{"__meta_baton_worker":"d0"}}])");
}

TEST_F(EndpointTest, CountsErrorsByTheirCode) {
  start({"secret"});
  const std::string body = ask("GET", "/metrics").body;
  const std::string errors = "baton_request_errors_total{code=\"";
  EXPECT_NE(body.find(errors + "resource_exhausted\""), std::string::npos)
      << "a series is there before its first event";
  EXPECT_EQ(ask("POST", kCompletions, R"({"prompt":"x"})").status, 401);
  EXPECT_EQ(ask("POST", kCompletions, "{", {{"Authorization", "Bearer secret"}}).status, 400);
  const std::string after = ask("GET", "/metrics").body;
  const std::string labels = "\",model_name=\"tiny\",role=\"router\"} 1\n";
  EXPECT_NE(after.find(errors + "unauthenticated" + labels), std::string::npos) << after;
  EXPECT_NE(after.find(errors + "invalid_argument" + labels), std::string::npos) << after;
}

TEST_F(EndpointTest, AsksForAKeyOnAllButTheOpenPaths) {
  start({"secret", "other"});
  for (const std::string path :
       {"/v1/models", "/nowhere", "/baton/status", "/tokenizer_info", "/baton/requests/x"}) {
    const http::Response got = ask("GET", path);
    EXPECT_EQ(got.status, 401) << path;
    EXPECT_EQ(got.headers.get("WWW-Authenticate"), "Bearer");
    EXPECT_EQ(error(got).at("code"), "invalid_api_key");
  }
  for (const std::string path : {"/health", "/livez", "/readyz", "/metrics"}) {
    EXPECT_EQ(ask("GET", path).status, 200) << path;
  }
  EXPECT_EQ(ask("OPTIONS", kCompletions).status, 204);
  for (const std::string key : {"Bearer secret", "bearer other", "BEARER secret"}) {
    EXPECT_EQ(ask("GET", "/v1/models", "", {{"Authorization", key}}).status, 200) << key;
  }
  for (const std::string key :
       {"Bearer secre", "Bearer secrets", "Bearer ", "secret", "Basic secret"}) {
    EXPECT_EQ(ask("GET", "/v1/models", "", {{"Authorization", key}}).status, 401) << key;
  }
}

TEST_F(EndpointTest, AllowsAnyOriginThatHasAKey) {
  start({"secret"});
  const http::Response refused = ask("GET", "/v1/models", "", {{"Origin", "http://a.org"}});
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.headers.get("Access-Control-Allow-Origin"), "*");
  EXPECT_EQ(ask("OPTIONS", kChat, "", {{"Origin", "http://a.org"}})
                .headers.get("Access-Control-Allow-Origin"),
            "*");
}

TEST_F(EndpointTest, KeepsMetricsBehindTheKeyWhenAsked) {
  config_.router.metrics_need_key = true;
  start({"secret"});
  EXPECT_EQ(ask("GET", "/metrics").status, 401);
  EXPECT_EQ(ask("GET", "/metrics/targets").status, 401);
  EXPECT_EQ(ask("GET", "/metrics", "", {{"Authorization", "Bearer secret"}}).status, 200);
}

TEST_F(EndpointTest, AllowsAnyOriginWhileKeylessOnLoopback) {
  start();
  const http::Headers origin = {{"Origin", "http://example.org"}};
  EXPECT_EQ(ask("GET", "/health", "", origin).headers.get("Access-Control-Allow-Origin"), "*");
  EXPECT_EQ(ask("POST", kCompletions, "{", origin).headers.get("Access-Control-Allow-Origin"), "*");
  EXPECT_FALSE(ask("GET", "/health").headers.contains("Access-Control-Allow-Origin"));
  const http::Response preflight = ask("OPTIONS", kChat, "", origin);
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.headers.get("Access-Control-Allow-Headers"),
            "Authorization, Content-Type, *");
  EXPECT_FALSE(preflight.headers.contains("Access-Control-Allow-Credentials"));
}

TEST_F(EndpointTest, MakesUnlistedOriginsAskFirst) {
  start();
  const std::string body = R"({"prompt":"x"})";
  for (const std::string type : {"text/plain", "application/x-www-form-urlencoded", ""}) {
    const http::Response got =
        ask("POST", kCompletions, body, {{"Origin", "http://a.org"}, {"Content-Type", type}});
    EXPECT_EQ(got.status, 415) << type;
    EXPECT_EQ(error(got).at("type"), "invalid_request_error");
  }
  for (const std::string type : {"application/json", "Application/JSON; charset=utf-8"}) {
    EXPECT_EQ(ask("POST", kCompletions, body, {{"Origin", "http://a.org"}, {"Content-Type", type}})
                  .status,
              200);
  }
  EXPECT_EQ(ask("POST", kCompletions, body, {{"Content-Type", "text/plain"}}).status, 200);
}

TEST_F(EndpointTest, ReadsPlainUtf8BodiesOnly) {
  start();
  const std::string body = R"({"prompt":"x"})";
  const auto status = [&](const std::string& name, const std::string& value) {
    return ask("POST", kCompletions, body, {{name, value}}).status;
  };
  EXPECT_EQ(status("Content-Encoding", "gzip"), 415);
  EXPECT_EQ(status("Content-Encoding", "Identity"), 200);
  EXPECT_EQ(status("Content-Type", "application/json; charset=iso-8859-1"), 415);
  EXPECT_EQ(status("Content-Type", "application/json; Charset=\"UTF-8\"; x=y"), 200);
  EXPECT_EQ(status("Content-Type", "nonsense"), 200);
}

TEST_F(EndpointTest, AllowsOnlyListedOrigins) {
  config_.router.cors_origins = {"http://a.org"};
  start();
  const http::Response listed = ask("GET", "/health", "", {{"Origin", "http://a.org"}});
  EXPECT_EQ(listed.headers.get("Access-Control-Allow-Origin"), "http://a.org");
  EXPECT_EQ(listed.headers.get("Vary"), "Origin");
  EXPECT_FALSE(ask("GET", "/health", "", {{"Origin", "http://b.org"}})
                   .headers.contains("Access-Control-Allow-Origin"));
  const std::string body = R"({"prompt":"x"})";
  EXPECT_EQ(
      ask("POST", kCompletions, body, {{"Origin", "http://a.org"}, {"Content-Type", "text/plain"}})
          .status,
      200);
  EXPECT_EQ(
      ask("POST", kCompletions, body, {{"Origin", "http://b.org"}, {"Content-Type", "text/plain"}})
          .status,
      415);
}

TEST_F(EndpointTest, EchoesOrMakesARequestId) {
  start();
  for (const std::string path : {"/health", "/nowhere", "/v1/models", "/baton/status"}) {
    EXPECT_EQ(ask("GET", path, "", {{"X-Request-ID", "mine"}}).headers.get("x-request-id"), "mine");
    const std::string first(ask("GET", path).headers.get("x-request-id"));
    EXPECT_EQ(first.size(), 32u);
    EXPECT_NE(ask("GET", path).headers.get("x-request-id"), first);
  }
  EXPECT_EQ(ask("POST", kCompletions, R"({"prompt":"x"})", {{"X-Request-ID", "mine"}})
                .headers.get("x-request-id"),
            "mine");
  EXPECT_EQ(ask("POST", kCompletions, "{", {{"X-Request-ID", "mine"}}).headers.get("x-request-id"),
            "mine");
}

}  // namespace
}  // namespace baton::router
