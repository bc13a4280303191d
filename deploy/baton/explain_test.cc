#include "deploy/baton/explain.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/config/program_options.h"

namespace baton::cli {
namespace {

const char* const kAnswer = R"json({
  "id": "cmpl-1", "request_id": "mine\u001b[2J", "state": "finished", "finish_reason": "length",
  "prompts": 1, "choices": 1, "max_tokens": 20, "prompt_tokens": 412, "cached_tokens": 32,
  "completion_tokens": 20, "error_message": "", "moves": 1,
  "ttft_ms": 42.5, "tpot_ms": 5.25, "total_ms": 142,
  "phases": [
    {"name": "queue", "begin_ms": 2, "end_ms": 11, "predicted_ms": 5},
    {"name": "prefill", "begin_ms": 11, "end_ms": 42.5, "predicted_ms": 30},
    {"name": "decode", "begin_ms": 42.5, "end_ms": 142, "predicted_ms": null}],
  "timeline": [
    {"at_ms": 0, "event": "arrived", "detail": ""},
    {"at_ms": 42.5, "event": "first token", "detail": "from p0"}],
  "attempts": [
    {"decision": "remote", "reason": "long_prompt", "prefill": "p0", "decode": "d0",
     "moved_because": "", "measured": {"prompt_tokens_computed": 380, "prompt_tokens_cached": 32,
       "prefill_chunks": 2, "transport": "ucx-posix", "transfer_bytes": 9000000, "grant_ms": 0.5,
       "first_data_ms": 4, "transfer_ms": 30, "transfer_visible_ms": 3},
     "considered": [
       {"worker": "p0", "role": "prefill", "chosen": true, "uncached_tokens": 380, "queue_ms": 5,
        "prefill_ms": 30, "transfer_ms": 0, "blocks_ms": 0},
       {"worker": "d0", "role": "decode", "chosen": true, "uncached_tokens": 412, "queue_ms": 0,
        "prefill_ms": 81, "transfer_ms": 2.1, "blocks_ms": 0}]},
    {"decision": "local", "reason": "no_prefill_worker", "prefill": "", "decode": "d1",
     "moved_because": "decode worker d0 is gone (process ended)", "measured": null,
     "considered": []}],
  "attempts_forgotten": 0})json";

TEST(ExplainTest, ShowsDecisionPartsAndTimeLine) {
  const Result<std::string> got = explain_text(kAnswer);
  ASSERT_TRUE(got.ok());
  for (const std::string line :
       {"state     finished (length)", "412 prompt tokens (32 cached), 20 of at most 20",
        "first token 42.5 ms, then 5.2 ms a token, total 142 ms, moved 1 time",
        "prefill             31.5 ms    30.0 ms", "decode              99.5 ms          -",
        "DECISION  remote (long_prompt): p0 -> d0", "380 tokens in 2 steps, 32 cached",
        "9000000 bytes over ucx-posix", "* p0            prefill       380    5.0 ms   30.0 ms",
        "DECISION  local (no_prefill_worker): all on d1",
        "moved:    decode worker d0 is gone (process ended)",
        "42.5 ms  first token           from p0"}) {
    EXPECT_NE(got->find(line), std::string::npos) << line << "\nin\n" << *got;
  }
  EXPECT_EQ(got->find('\x1b'), std::string::npos) << "a client's id reaches the terminal";
}

TEST(ExplainTest, LetsNobodySpeakToTheTerminal) {
  const Result<std::string> got = explain_text(
      R"({"id": "a\u009b2Jb\nc", "error_message": "\u0085", "timeline": [{"detail": "\u009d"}],
          "prompts": 1e300, "choices": 1e300, "max_tokens": 1e300, "moves": -1e300})");
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->find('\xc2'), std::string::npos) << "U+0080 to U+009F begin with this byte";
  EXPECT_NE(got->find("request   a\xef\xbf\xbd"
                      "2Jb c\n"),
            std::string::npos)
      << *got;
}

TEST(ExplainTest, FitsATerminal) {
  const std::string text = explain_text(kAnswer).value();
  size_t widest = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    widest = std::max(widest, end - at);
    at = end + 1;
  }
  EXPECT_LE(widest, 80u) << text;
}

TEST(ExplainTest, TakesNothingForGranted) {
  EXPECT_FALSE(explain_text("[]").ok());
  EXPECT_FALSE(explain_text("{").ok());
  EXPECT_TRUE(explain_text("{}").ok());
  EXPECT_TRUE(explain_text(R"({"phases":[1,{}],"attempts":[{"measured":3,"considered":0}]})").ok());
}

TEST(ExplainTest, SaysWhenNobodyAnswers) {
  ExplainOptions options;
  options.url = "http://127.0.0.1:1";
  options.request_id = "a/b";
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_explain(options), config::kExitCannotStart);
  EXPECT_TRUE(::testing::internal::GetCapturedStderr().starts_with("baton: "));
}

}  // namespace
}  // namespace baton::cli
