#include "deploy/baton/router_client.h"

#include <gmock/gmock.h>

#include "common/http/server_fixture.h"
#include "deploy/baton/first_answer.h"
#include "deploy/baton/ready_file.h"
#include "deploy/baton/temp_folder.h"

namespace baton::cli {
namespace {

constexpr std::string_view kStream =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
    ": a comment\r\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"}}]}\r\n\r\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\", you\"}}]}\n\n"
    "data: {\"choices\":[],\"usage\":{},\"baton\":{\"prefill\":\"p0\",\"decode\":\"d0\","
    "\"transport\":\"ucx-posix\",\"prefill_ms\":31.2,\"transfer_ms\":3.0,"
    "\"transfer_visible_ms\":0.24,\"prompt_tokens_computed\":412,\"prompt_tokens_cached\":0,"
    "\"transfer_bytes\":9100000}}\n\n"
    "data: [DONE]\n\n";

TEST(AnswerReaderTest, JoinsTheTextHoweverTheStreamIsCut) {
  for (const size_t piece : {size_t{1}, size_t{7}, kStream.size()}) {
    std::string text;
    AnswerReader reader([&text](std::string_view more) { text += more; });
    for (size_t at = 0; at < kStream.size(); at += piece) {
      reader.feed(kStream.substr(at, piece));
    }
    EXPECT_TRUE(reader.status().ok());
    EXPECT_EQ(text, "Hello, you");
    ASSERT_TRUE(reader.path().has_value());
    EXPECT_EQ(path_line(*reader.path()),
              "prefill p0 (412 tokens, 31 ms) -> 9.1 MB over ucx-posix (3 ms, 92 % hidden) -> "
              "decode d0");
  }
}

TEST(AnswerReaderTest, ReportsAnErrorEventAndAStreamThatBreaksOff) {
  AnswerReader failed([](std::string_view) {});
  EXPECT_FALSE(failed.feed("data: {\"error\":{\"message\":\"worker d0 is gone\"}}\n\n"));
  EXPECT_EQ(failed.status().message(), "worker d0 is gone");
  AnswerReader cut([](std::string_view) {});
  EXPECT_TRUE(cut.feed("data: {\"choices\":[]}\n\n"));
  EXPECT_EQ(cut.status().message(), "the stream ended before [DONE]");
  ASSERT_TRUE(failed.error().has_value());
  EXPECT_FALSE(is_context_overflow(*failed.error()));
  AnswerReader garbage([](std::string_view) {});
  EXPECT_FALSE(garbage.feed("data: {]\n\n"));
  AnswerReader endless([](std::string_view) {});
  EXPECT_FALSE(endless.feed(std::string((1 << 20) + 1, 'x')));
}

TEST(AnswerReaderTest, TellsHowTheAnswerEndedAndWhatTheServerCounted) {
  AnswerReader reader([](std::string_view) {});
  reader.feed("data:{\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n");
  EXPECT_EQ(reader.finish_reason(), "");
  EXPECT_EQ(reader.completion_tokens(), std::nullopt);
  reader.feed(
      "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}],\"usage\":null}\n\n");
  reader.feed("data: {\"choices\":[],\"usage\":{\"completion_tokens\":17}}\n\ndata: [DONE]\n\n");
  EXPECT_TRUE(reader.status().ok());
  EXPECT_EQ(reader.finish_reason(), "length");
  EXPECT_EQ(reader.completion_tokens(), 17);
}

TEST(ServerErrorTest, KnowsAFullContextInTheWordsOfTheCommonServers) {
  EXPECT_TRUE(
      is_context_overflow({"too long", "invalid_request_error", "context_length_exceeded"}));
  EXPECT_TRUE(is_context_overflow(
      {"the request exceeds the available context size", "exceed_context_size_error", ""}));
  EXPECT_TRUE(is_context_overflow(
      {"This model's maximum context length is 2048 tokens. However,", "BadRequestError", ""}));
  EXPECT_FALSE(is_context_overflow({"unknown model", "not_found_error", "model_not_found"}));
}

// A server whose answers a test writes down.
class RouterClientTest : public ::testing::Test {
 protected:
  void serve(int status, std::string body, std::string type = "application/json") {
    Result<std::unique_ptr<http::Server>> started = http::Server::start(
        "127.0.0.1:0", {},
        [=, this](const http::Request& request, const std::shared_ptr<http::Responder>& responder) {
          asked_ = request.method + " " + request.path + " " +
                   std::string(request.headers.get("Authorization"));
          http::Response response = http::json_response(status, body);
          response.headers.set("Content-Type", type);
          responder->send(std::move(response));
        });
    ASSERT_TRUE(started.ok());
    server_ = *std::move(started);
  }
  RouterClient client() { return {{server_->url() + "/", "secret"}, 5s}; }

  std::string asked_;
  std::unique_ptr<http::Server> server_;
};

TEST_F(RouterClientTest, ListsModels) {
  serve(200, R"({"object":"list","data":[{"id":"m","max_model_len":8192},{"id":"n"},7]})");
  const auto models = client().models();
  ASSERT_TRUE(models.ok());
  EXPECT_EQ(asked_, "GET /v1/models Bearer secret");
  ASSERT_EQ(models->size(), 2u);
  EXPECT_EQ((*models)[0].id, "m");
  EXPECT_EQ((*models)[0].max_context, 8192);
  EXPECT_EQ((*models)[1].max_context, 0);
}

TEST_F(RouterClientTest, TellsTheServersOwnMessageOrItsStatus) {
  serve(401, R"({"error":{"message":"no such key"}})");
  EXPECT_EQ(client().models().status().message(), server_->url() + "/v1/models: no such key");
  EXPECT_EQ(client().status().status().message(), server_->url() + "/baton/status: no such key");
  EXPECT_EQ(client().stream_answer("{}", [](std::string_view) {}).status.message(), "no such key");
  serve(502, "<html>");
  EXPECT_EQ(client().models().status().message(), server_->url() + "/v1/models: HTTP status 502");
  EXPECT_EQ(client().stream_answer("{}", [](std::string_view) {}).status.message(),
            "HTTP status 502");
  serve(400, R"({"object":"error","message":"maximum context length is 9","code":400})");
  EXPECT_TRUE(client().stream_answer("{}", [](std::string_view) {}).context_overflow);
  serve(404, R"({"error":"model 'x' not found"})");
  EXPECT_EQ(client().stream_answer("{}", [](std::string_view) {}).status.message(),
            "model 'x' not found");
}

TEST_F(RouterClientTest, StreamsAnAnswer) {
  serve(200, std::string(kStream), "text/event-stream");
  std::string text;
  const Answer answer =
      client().stream_answer("{}", [&text](std::string_view more) { text += more; });
  EXPECT_TRUE(answer.status.ok()) << answer.status.to_string();
  EXPECT_EQ(asked_, "POST /v1/chat/completions Bearer secret");
  EXPECT_EQ(text, "Hello, you");
  EXPECT_EQ(answer.path->prefill, "p0");
  EXPECT_EQ(client().chat("{}", [](std::string_view) {})->decode, "d0");
  serve(200, "data: {]\n\n", "text/event-stream");
  EXPECT_EQ(client().stream_answer("{}", [](std::string_view) {}).status.code(),
            StatusCode::kInternal)
      << "not an interruption";
}

TEST(PathLineTest, NamesOneWorkerWhenThePromptStayedThere) {
  RequestPath path;
  path.decode = "d0";
  path.prompt_tokens_computed = 20;
  path.prompt_tokens_cached = 64;
  path.prefill_ms = 12.4;
  EXPECT_EQ(path_line(path), "prefill and decode d0 (20 tokens + 64 cached, 12 ms)");
}

TEST(FirstAnswerTest, QuotesTheModelsName) {
  EXPECT_NE(first_answer_body("a\"b").find(R"("model":"a\"b")"), std::string::npos);
  EXPECT_EQ(curl_line("http://h:1", "m", true),
            "curl -N http://h:1/v1/chat/completions -H 'Content-Type: application/json' -H "
            "\"Authorization: Bearer $API_KEY\" -d "
            "'{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello!\"}],"
            "\"stream\":true}'");
}

TEST(ReadyFileTest, ReplacesTheWholeFile) {
  const TempFolder folder;
  const std::string json =
      ready_json("http://127.0.0.1:8000",
                 {{config::Role::kRouter, "router", 1, "http://127.0.0.1:8000/metrics"},
                  {config::Role::kDecode, "d\"0", 2, "http://127.0.0.1:9/metrics"}});
  EXPECT_EQ(json,
            "{\"url\":\"http://127.0.0.1:8000\",\"processes\":[{\"role\":\"router\",\"name\":"
            "\"router\",\"pid\":1,\"metrics_url\":\"http://127.0.0.1:8000/metrics\"},{\"role\":"
            "\"decode\",\"name\":\"d\\\"0\",\"pid\":2,\"metrics_url\":"
            "\"http://127.0.0.1:9/metrics\"}]}\n");
  folder.write("ready", "something much longer than what will be there afterwards");
  EXPECT_TRUE(write_atomically(folder.path("ready"), json).ok());
  EXPECT_EQ(folder.read("ready"), json);
  EXPECT_EQ(write_atomically(folder.path("no/ready"), json).message(),
            "cannot write " + folder.path("no/ready") + ": No such file or directory");
}

TEST(ApiKeyTest, TakesTheFirstKeyOfAFile) {
  const TempFolder folder;
  EXPECT_EQ(first_api_key(folder.write("keys", "# mine\n\nabc\r\ndef\n")).value(), "abc");
  EXPECT_EQ(first_api_key(folder.write("keys", "abc priority\ndef\n")).value(), "abc");
  EXPECT_FALSE(first_api_key(folder.write("none", "# mine\n")).ok());
  EXPECT_FALSE(first_api_key(folder.path("missing")).ok());
  EXPECT_EQ(first_api_key("").value(), "");
}

}  // namespace
}  // namespace baton::cli
