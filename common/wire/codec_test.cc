#include "common/wire/codec.h"

#include <gtest/gtest.h>

#include "common/base/random.h"

namespace baton::wire {
namespace {

RunBody sample_body() {
  RunBody body;
  body.key = {RequestId{U128{1, 2}}, 3, 4};
  body.prompt = {5, 6, 49151};
  body.choices = {ChoiceState{{7, 8}, FinishReason::kNone}, ChoiceState{{9}, FinishReason::kStop}};
  body.sampling.temperature = 0.5f;
  body.sampling.logit_bias = {{10, -100.0f}, {11, 2.5f}};
  body.sampling.stop_token_ids = {12};
  body.sampling.end_ids = {2, 0};
  body.sampling.ignore_eos = true;
  body.sampling.min_tokens = 1;
  body.sampling.max_tokens = 64;
  body.sampling.seed = 0xFFFFFFFFFFFFFFFFull;
  body.sampling.logprobs = -1;
  body.sampling.allowed_token_ids = {3, 4};
  body.sampling.bad_words = {{5}, {6, 7}};
  body.prompt_logprobs = 3;
  body.sampling.grammar_kind = 5;
  body.sampling.grammar_texts = {"yes", std::string("n\0o", 3)};
  body.sampling.token_count = 49'000;
  body.sampling.beam_width = 4;
  body.sampling.length_penalty = -0.5;
  body.cache_salt = std::string("a\0b", 3);
  body.whole_blocks = true;
  body.priority = -7;
  body.router.value = 77;
  body.deadline_ms = 1000;
  return body;
}

// One filled instance of every message.
std::vector<Message> samples() {
  const RunBody body = sample_body();
  const RunTimings timings{"p0", 1.5, 2.5, 3, 4, "ucx-posix", 5.5, 6.5, 7, 8.5, 9.5, 10};
  const TokenLogprob logprob{-0.25f, {{7, -0.25f}, {8, -1.5f}}, 1};
  Hello hello;
  hello.name = "d0";
  hello.role = Role::kDecode;
  hello.incarnation.value = 9;
  hello.boot_id = hello.pid_namespace = "b";
  hello.network_namespace = hello.shared_memory = "n";
  hello.devices = {"lo", "eth0"};
  hello.pid = 12;
  hello.model_hash = {3, 4};
  hello.numerics = "inv-1:split512:2";
  hello.segments = 2;
  hello.groups = {{0, 0, 1, 3, 64, 64}, {1, 0, 2, 3, 64, 64, 512}};
  hello.layer_groups = {1, 0, 1};
  hello.layouts = {1, 2};
  hello.heads = {{0, 2}, {1, 3}};
  hello.transports = {"ucx-posix"};
  hello.worker_address = std::string("\0\1\xff", 3);
  Heartbeat heartbeat;
  heartbeat.incarnation.value = 5;
  heartbeat.window_blocks_total = heartbeat.window_blocks_free = 7;
  heartbeat.links = {{"d0", "ucx-posix"}};
  heartbeat.cache_added = {{1, 2}};
  heartbeat.cache_removed = {{3, 4}};
  heartbeat.recent.prefill_tokens_per_s = 1000;
  heartbeat.recent.decode_roofline_share = 0.5;
  heartbeat.recent.preemptions = 0;
  WorkerInfo info;
  info.name = "p0";
  info.incarnation.value = 6;
  info.kv_bytes_per_token = 23040;
  info.window_tokens = 512;
  info.window_blocks_total = 70;
  info.window_kv_bytes_per_token = 100;
  info.boot_id = info.pid_namespace = "b";
  Tokens tokens;
  tokens.key = body.key;
  tokens.from.value = 5;
  tokens.choice = 1;
  tokens.first_index = 3;
  tokens.ids = {1, 2};
  tokens.logprobs = {logprob, logprob};
  tokens.finish = FinishReason::kLength;
  tokens.timings = timings;
  Commit commit;
  commit.key = body.key;
  commit.slot = 1;
  commit.generation = 2;
  commit.bytes = 1ull << 40;
  commit.digest = 0xFFFFFFFFFFFFFFFEull;
  commit.choices = {{0, {1}, {logprob}, FinishReason::kNone}};
  commit.timings = timings;
  return {Prefill{body, {{"d0", Incarnation{8}, "tcp://127.0.0.1:1"}}},
          Run{body},
          Cancel{body.key.request, 2, "client"},
          tokens,
          RunFailed{body.key, Incarnation{5}, StatusCode::kWorkerLost, "gone", 100},
          LegChanged{body.key, Incarnation{5}, "denied"},
          Register{info},
          Welcome{Incarnation{7}, false, "other model"},
          heartbeat,
          Goodbye{Incarnation{5}},
          hello,
          HelloReply{true, "", hello, 1, "ucx-posix"},
          Reserve{body.key, 1, 2, 3, body},
          Grant{1, 2, 3, 4, 5, 6, {7, 0}, {8}},
          Deny{1, StatusCode::kResourceExhausted, "full", 20},
          commit,
          CommitAck{1, 2, true, ""},
          Abort{body.key, 1, 0, 0, "client"},
          AbortAck{1, 2, 3, true},
          StatusQuery{1, 2},
          StatusReply{1, 2, StatusReply::State::kCommitted},
          PeerHeartbeat{Incarnation{5}, 12, true},
          PromptLogprobs{body.key, Incarnation{5}, 1, {logprob, logprob}},
          Written{"header"}};
}

TEST(CodecTest, EveryMessageSurvivesUnchanged) {
  const std::vector<Message> all = samples();
  ASSERT_EQ(all.size(), std::variant_size_v<Message>);
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i].index(), i);
    const std::string bytes = encode(all[i]);
    const Result<Message> back = decode(bytes);
    ASSERT_TRUE(back.ok()) << message_name(all[i]) << ": " << back.status().to_string();
    EXPECT_EQ(back->index(), i);
    EXPECT_EQ(encode(*back), bytes) << message_name(all[i]);
  }
}

TEST(CodecTest, KeepsTheFieldsOfARequest) {
  const auto back = std::get<wire::Run>(*decode(encode(wire::Run{sample_body()})));
  const RunBody want = sample_body();
  EXPECT_EQ(back.body.key, want.key);
  EXPECT_EQ(back.body.prompt, want.prompt);
  ASSERT_EQ(back.body.choices.size(), 2u);
  EXPECT_EQ(back.body.choices[0].output, want.choices[0].output);
  EXPECT_EQ(back.body.choices[1].finished, FinishReason::kStop);
  EXPECT_EQ(back.body.sampling.logit_bias, want.sampling.logit_bias);
  EXPECT_EQ(back.body.sampling.seed, want.sampling.seed);
  EXPECT_EQ(back.body.sampling.logprobs, -1);
  EXPECT_EQ(back.body.sampling.allowed_token_ids, want.sampling.allowed_token_ids);
  EXPECT_EQ(back.body.sampling.bad_words, want.sampling.bad_words);
  EXPECT_EQ(back.body.prompt_logprobs, 3);
  EXPECT_EQ(back.body.sampling.token_count, 49'000u);
  EXPECT_EQ(back.body.sampling.beam_width, 4u);
  EXPECT_EQ(back.body.sampling.length_penalty, -0.5);
  EXPECT_EQ(back.body.cache_salt, want.cache_salt);
  EXPECT_EQ(back.body.whole_blocks, want.whole_blocks);
  EXPECT_EQ(back.body.priority, want.priority);
}

TEST(CodecTest, RefusesValuesOutsideTheirRange) {
  wire::Run no_choices{sample_body()};
  no_choices.body.choices.clear();
  EXPECT_EQ(decode(encode(no_choices)).status().message(),
            "message 'run' has a value outside its range");
  EXPECT_FALSE(decode(encode(Grant{1, 0, 3, 4, 5, 6, {}, {}})).ok());
  EXPECT_FALSE(decode(encode(Cancel{RequestId{}, 0, ""})).ok());
}

TEST(CodecTest, RefusesWhatIsNoMessage) {
  EXPECT_FALSE(decode("hello, world").ok());
  EXPECT_EQ(decode("").status().message(),
            "message of a kind that protocol version 1 does not know (sender speaks 0)");
}

TEST(CodecTest, SurvivesDamagedBytes) {
  SeededRandom random(3);
  const std::vector<Message> all = samples();
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = encode(all[random.next() % all.size()]);
    for (uint64_t flips = 1 + random.next() % 4; flips > 0; --flips) {
      bytes[random.next() % bytes.size()] = static_cast<char>(random.next());
    }
    bytes.resize(random.next() % 8 == 0 ? random.next() % bytes.size() : bytes.size());
    (void)decode(bytes).ok();  // any answer, no crash
  }
}

}  // namespace
}  // namespace baton::wire
