#include "deploy/baton/router_client.h"

#include <gtest/gtest.h>

#include "deploy/baton/first_answer.h"
#include "deploy/baton/ready_file.h"
#include "deploy/baton/status_report.h"
#include "deploy/baton/temp_folder.h"

namespace baton::cli {
namespace {

constexpr const char* kStatus =
    R"({"workers":[
      {"name":"d0","role":"decode","state":"ready","blocks_total":100,"blocks_free":98,"running":2,
       "waiting":0,"incarnation":"77","pid":12,"tensor_parallel":2,"metrics_url":"http://d0/metrics"},
      {"name":"p0","role":"prefill","state":"draining","blocks_total":50,"blocks_free":50,
       "running":0,"waiting":3,"incarnation":"78","pid":11,"tensor_parallel":1,
       "metrics_url":"http://p0/metrics"}],
      "links":[{"from":"p0","to":"d0","transport":"ucx-posix"}]})";

TEST(ClusterStatusTest, ReadsWorkersAndLinks) {
  const Result<ClusterStatus> status = parse_status(kStatus);
  ASSERT_TRUE(status.ok()) << status.status().to_string();
  ASSERT_EQ(status->workers.size(), 2u);
  EXPECT_EQ(status->workers[0].name, "p0");
  EXPECT_EQ(status->workers[1].pid, 12);
  EXPECT_EQ(status->workers[1].metrics_url, "http://d0/metrics");
  ASSERT_EQ(status->links.size(), 1u);
  EXPECT_EQ(status->links[0].transport, "ucx-posix");
}

TEST(ClusterStatusTest, RefusesWhatIsNoStatus) {
  EXPECT_FALSE(parse_status("<html>").ok());
  EXPECT_FALSE(parse_status("[]").ok());
  EXPECT_FALSE(parse_status(R"({"workers":[1]})").ok());
  EXPECT_FALSE(parse_status(R"({"links":["x"]})").ok());
}

TEST(ClusterStatusTest, PrintsATable) {
  EXPECT_EQ(status_table(parse_status(kStatus).value()),
            "WORKER  ROLE     STATE     RUNNING  WAITING  FREE BLOCKS  TP  GENERATION\n"
            "p0      prefill  draining  0        3        50 of 50     1   78\n"
            "d0      decode   ready     2        0        98 of 100    2   77\n"
            "\n"
            "LINK      TRANSPORT\n"
            "p0 -> d0  ucx-posix\n");
  EXPECT_EQ(status_table({}), "no workers\n");
}

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
  AnswerReader garbage([](std::string_view) {});
  EXPECT_FALSE(garbage.feed("data: {]\n\n"));
  AnswerReader endless([](std::string_view) {});
  EXPECT_FALSE(endless.feed(std::string((1 << 20) + 1, 'x')));
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
  EXPECT_FALSE(first_api_key(folder.write("none", "# mine\n")).ok());
  EXPECT_FALSE(first_api_key(folder.path("missing")).ok());
}

}  // namespace
}  // namespace baton::cli
