// Requests that a decode worker prefills itself: the batch, preemption, ends. Hand-overs are in
// decode_tickets_test.cc.

#include "decode_worker/decode_role.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decode_worker/decode_fixture.h"

namespace baton::decode_worker {
namespace {

using testing::HasSubstr;

class DecodeRoleTest : public DecodeFixture {
 protected:
  const wire::RunFailed* failure(const wire::RunBody& body) {
    for (const wire::RunFailed& failed : router_.failed) {
      if (failed.key.request == body.key.request) {
        return &failed;
      }
    }
    return nullptr;
  }
};

TEST_F(DecodeRoleTest, PrefillsInChunksAndDecodesToTheEnd) {
  start();
  const wire::RunBody request = body(1, 150, 40);
  run(request);
  ASSERT_TRUE(until([&] { return finished(request); }));
  expect_right(request);
  EXPECT_EQ(router_.finish(request.key.request), wire::FinishReason::kLength);
  EXPECT_EQ(host_->metric(metrics::MetricId::kPromptTokensComputed), 150);
  const auto& timings = router_.tokens.front().timings;
  ASSERT_TRUE(timings);
  EXPECT_EQ(timings->prefill_worker, "d0");
  EXPECT_EQ(timings->prompt_tokens_computed, 150u);
  EXPECT_GE(timings->prefill_chunks, 3u);  // of at most 64 tokens
  expect_all_free();
}

TEST_F(DecodeRoleTest, RequestsOfOneBatchGetTheTokensTheyGetAlone) {
  start();
  std::vector<wire::RunBody> requests;
  for (uint64_t n = 1; n <= 8; ++n) {
    requests.push_back(body(n, static_cast<int>(n * 13), 20, n % 3 == 0 ? 3 : 1));
    run(requests.back());
  }
  ASSERT_TRUE(
      until([&] { return std::ranges::all_of(requests, [&](auto& r) { return finished(r); }); }));
  for (const wire::RunBody& request : requests) {
    expect_right(request);
  }
  EXPECT_GE(host_->largest_batch, 8);
  expect_all_free();
}

TEST_F(DecodeRoleTest, APromptJoinsRunningStreamsWithoutStoppingThem) {
  start();
  const wire::RunBody stream = body(1, 10, 60);
  run(stream);
  ASSERT_TRUE(until([&] { return router_.output(stream.key.request).size() >= 3; }));
  const wire::RunBody late = body(2, 200, 4);
  run(late);
  ASSERT_TRUE(until_paused([&] { return running() == 2; }));
  const size_t before = router_.output(stream.key.request).size();
  const int steps = host_->steps;
  ASSERT_TRUE(until([&] { return !router_.output(late.key.request).empty(); }));
  const int took = host_->steps - steps;
  // Of the messages, not of the steps until they came: the network may be slow.
  const auto first = std::ranges::find_if(router_.tokens, [&](const wire::Tokens& tokens) {
    return tokens.key.request == late.key.request;
  });
  ASSERT_TRUE(first->timings);
  EXPECT_EQ(first->timings->prefill_chunks, 4u) << "200 tokens in chunks of 64";
  EXPECT_GE(static_cast<int>(router_.output(stream.key.request).size() - before), took - 2);
  ASSERT_TRUE(until([&] { return finished(stream) && finished(late); }));
  expect_right(stream);
  expect_right(late);
}

TEST_F(DecodeRoleTest, ACachedPrefixIsNotComputedAgain) {
  start();
  wire::RunBody first = body(1, 100, 3);
  run(first);
  ASSERT_TRUE(until([&] { return finished(first); }));
  wire::RunBody second = worker::repeated(first, 2);
  run(second);
  ASSERT_TRUE(until([&] { return finished(second); }));
  EXPECT_EQ(router_.output(second.key.request), router_.output(first.key.request));
  EXPECT_EQ(host_->metric(metrics::MetricId::kPromptTokensComputed), 100 + 4);
  wire::RunBody salted = worker::repeated(first, 3);
  salted.cache_salt = "tenant";
  run(salted);
  ASSERT_TRUE(until([&] { return finished(salted); }));
  EXPECT_EQ(host_->metric(metrics::MetricId::kPromptTokensComputed), 100 + 4 + 100);
}

TEST_F(DecodeRoleTest, APrefixThatEndsInsideABlockIsNotComputedAgain) {
  start();
  const wire::RunBody first = body(1, 100, 3);
  run(first);
  ASSERT_TRUE(until([&] { return finished(first); }));
  wire::RunBody second = worker::repeated(first, 2);
  second.prompt[70] ^= 1;
  run(second);
  ASSERT_TRUE(until([&] { return finished(second); }));
  EXPECT_EQ(host_->metric(metrics::MetricId::kPromptTokensComputed), 100 + 30);
  expect_right(second);

  wire::RunBody whole = worker::repeated(second, 3);
  whole.prompt[80] ^= 1;
  whole.whole_blocks = true;
  run(whole);
  ASSERT_TRUE(until([&] { return finished(whole); }));
  EXPECT_EQ(host_->metric(metrics::MetricId::kPromptTokensComputed), 100 + 30 + 36);
  expect_right(whole);
}

TEST_F(DecodeRoleTest, StopsAtTheFirstToken) {
  start();
  wire::RunBody one = body(1, 40, 1, 2);
  run(one);
  ASSERT_TRUE(until([&] { return finished(one); }));
  expect_right(one);
  wire::RunBody stop = body(2, 40, 50);
  stop.sampling.stop_token_ids = {oracle_.output(body(2, 40, 1))[0]};
  run(stop);
  ASSERT_TRUE(until([&] { return finished(stop); }));
  EXPECT_EQ(router_.finish(stop.key.request), wire::FinishReason::kStop);
  EXPECT_EQ(router_.output(stop.key.request).size(), 1u);
  expect_all_free();
}

TEST_F(DecodeRoleTest, TheEndOfTheContextEndsAnUnlimitedRequest) {
  start();
  const wire::RunBody request = body(1, 500, 0);  // of 512
  run(request);
  ASSERT_TRUE(until([&] { return finished(request); }));
  EXPECT_EQ(router_.output(request.key.request).size(), 12u);
  EXPECT_EQ(router_.finish(request.key.request), wire::FinishReason::kLength);
}

TEST_F(DecodeRoleTest, AMovedRequestGoesOnWithTheSameTokens) {
  start();
  for (const size_t choices : {1u, 3u}) {
    wire::RunBody request = body(choices, 45, 30, choices);
    request.sampling.temperature = 0.8f;
    request.sampling.repetition_penalty = 1.2f;
    request.sampling.grammar_kind = static_cast<uint8_t>(grammar::Kind::kRegex);
    request.sampling.grammar_texts = {"([a-z]+ ?)*"};
    const wire::RunBody whole = request;
    for (size_t i = 0; i < choices; ++i) {
      const std::vector<TokenId> all = oracle_.output(whole, i);
      const auto emitted = static_cast<ptrdiff_t>(choices == 1 ? 17 : i * 9);
      request.choices[i].output.assign(all.begin(), all.begin() + emitted);
      router_.expect_after(request.key.request, static_cast<uint32_t>(i),
                           request.choices[i].output);
    }
    request.key.attempt = 1;
    run(request);
    ASSERT_TRUE(until([&] { return finished(request); }));
    expect_right(whole);
  }
  expect_all_free();
}

TEST_F(DecodeRoleTest, AGrammarBoundsTheOutputAndEndsIt) {
  start();
  wire::RunBody request = body(1, 40, 30);
  request.sampling.grammar_kind = static_cast<uint8_t>(grammar::Kind::kChoice);
  request.sampling.grammar_texts = {"ab", "ac"};
  run(request);
  ASSERT_TRUE(until([&] { return finished(request); }));
  expect_right(request);
  EXPECT_EQ(router_.finish(request.key.request), wire::FinishReason::kStop);
  EXPECT_LE(router_.output(request.key.request).size(), 2u);
  wire::RunBody wrong = body(2, 40, 30);
  wrong.sampling.grammar_kind = 99;
  wrong.sampling.grammar_texts = {"x"};
  run(wrong);
  ASSERT_TRUE(until([&] { return !router_.failed.empty(); }));
  EXPECT_EQ(router_.failed[0].code, StatusCode::kInvalidArgument);
}

TEST_F(DecodeRoleTest, PreemptionChangesNoTokenAndEndsForEveryone) {
  HostSetup setup;
  setup.blocks = 12;
  for (const bool prefix_cache : {true, false}) {
    setup.prefix_cache = prefix_cache;
    start(setup);
    std::vector<wire::RunBody> requests;
    for (uint64_t n = 1; n <= 6; ++n) {
      requests.push_back(body(n + (prefix_cache ? 0 : 100), 25, 90, n == 4 ? 2 : 1));
      run(requests.back());
    }
    ASSERT_TRUE(
        until([&] { return std::ranges::all_of(requests, [&](auto& r) { return finished(r); }); }));
    for (const wire::RunBody& request : requests) {
      expect_right(request);
    }
    EXPECT_GT(host_->metric(metrics::MetricId::kPreemptions), 0);
    expect_all_free();
  }
}

TEST_F(DecodeRoleTest, TheMostUrgentIsAdmittedFirstAndEqualOnesInOrderOfArrival) {
  HostSetup setup;
  setup.max_batch_sequences = 1;
  start(setup);
  const std::vector<int64_t> priorities = {0, 3, 0, -2, 3, -1};
  for (uint64_t n = 1; n <= priorities.size(); ++n) {
    wire::RunBody request = body(n, 10, 1);
    request.priority = priorities[n - 1];
    run(request);
  }
  ASSERT_TRUE(until_paused([&] { return running() + waiting() == 6; }));
  ASSERT_TRUE(until([&] { return router_.tokens.size() == 6; }));
  std::vector<uint64_t> order;
  for (const wire::Tokens& tokens : router_.tokens) {
    order.push_back(tokens.key.request.value.lo);
  }
  // The first had its place before the others came, or is one of two equal ones.
  EXPECT_EQ(std::erase(order, 1u), 1u);
  EXPECT_EQ(order, (std::vector<uint64_t>{4, 6, 3, 2, 5}));
}

// Two grow until the blocks are enough for one of them.
TEST_F(DecodeRoleTest, TheLessUrgentIsPreemptedAlsoWhenItIsOlder) {
  HostSetup setup;
  setup.blocks = 6;
  uint64_t id = 1;
  for (const int64_t older : {0, 1}) {
    start(setup);
    wire::RunBody first = body(id++, 60, 100);
    wire::RunBody second = body(id++, 60, 90);
    first.priority = older;
    run(first);
    ASSERT_TRUE(until([&] { return router_.output(first.key.request).size() > 1; }));
    run(second);
    ASSERT_TRUE(until([&] { return finished(first) || finished(second); }));
    EXPECT_EQ(finished(second), older > 0);
    ASSERT_TRUE(until([&] { return finished(first) && finished(second); }));
    EXPECT_GT(host_->metric(metrics::MetricId::kPreemptions), 0);
    expect_right(first);
    expect_right(second);
    expect_all_free();
  }
}

TEST_F(DecodeRoleTest, AnUrgentRequestOvertakesThePreempted) {
  HostSetup setup;
  setup.blocks = 7;
  start(setup);
  const wire::RunBody first = body(1, 60, 110);
  const wire::RunBody second = body(2, 60, 110);
  run(first);
  run(second);
  ASSERT_TRUE(until([&] { return host_->metric(metrics::MetricId::kPreemptions) > 0; }));
  wire::RunBody usual = body(3, 10, 5);
  wire::RunBody urgent = body(4, 10, 5);
  urgent.priority = -1;
  run(usual);
  run(urgent);
  ASSERT_TRUE(until([&] { return finished(urgent); }));
  EXPECT_FALSE(finished(first));
  EXPECT_TRUE(router_.output(usual.key.request).empty());
  ASSERT_TRUE(until([&] { return finished(first) && finished(second) && finished(usual); }));
  for (const wire::RunBody& request : {first, second, usual, urgent}) {
    expect_right(request);
  }
  expect_all_free();
}

TEST_F(DecodeRoleTest, PreemptionLosesNoPromptLogprob) {
  HostSetup setup;
  setup.blocks = 12;
  setup.max_chunk_tokens = 20;
  start(setup);
  std::vector<wire::RunBody> requests;
  for (uint64_t n = 1; n <= 6; ++n) {
    requests.push_back(body(n, 100, 60));
    requests.back().prompt.assign(requests[0].prompt.begin(), requests[0].prompt.end());
    requests.back().prompt_logprobs = 0;
    run(requests.back());
  }
  ASSERT_TRUE(
      until([&] { return std::ranges::all_of(requests, [&](auto& r) { return finished(r); }); }));
  for (const wire::RunBody& request : requests) {
    EXPECT_EQ(router_.prompt_logprobs[request.key.request].size(), 99u);
    for (const auto& [place, logprob] : router_.prompt_logprobs[request.key.request]) {
      EXPECT_EQ(logprob.logprob, router_.prompt_logprobs[requests[0].key.request][place].logprob);
    }
    expect_right(request);
  }
  expect_all_free();
}

TEST_F(DecodeRoleTest, AFullPoolServesEveryRequestThatFitsAlone) {
  HostSetup setup;
  setup.blocks = 4;
  start(setup);
  std::vector<wire::RunBody> requests;
  for (uint64_t n = 1; n <= 5; ++n) {
    requests.push_back(body(n, 100, 29));  // 128 tokens with KV: exactly the pool
    run(requests.back());
  }
  ASSERT_TRUE(
      until([&] { return std::ranges::all_of(requests, [&](auto& r) { return finished(r); }); }));
  for (const wire::RunBody& request : requests) {
    expect_right(request);
  }
  expect_all_free();
}

TEST_F(DecodeRoleTest, AsManyRunTogetherAsTheirBlocksAllow) {
  HostSetup setup;
  setup.blocks = 28;
  start(setup);
  std::vector<wire::RunBody> requests;
  for (uint64_t n = 1; n <= 4; ++n) {
    requests.push_back(body(n, 193, 8));  // 200 tokens, 7 blocks
    run(requests.back());
  }
  ASSERT_TRUE(
      until([&] { return std::ranges::all_of(requests, [&](auto& r) { return finished(r); }); }));
  EXPECT_EQ(host_->largest_batch, 4);
  EXPECT_EQ(host_->metric(metrics::MetricId::kPreemptions), 0);
}

TEST_F(DecodeRoleTest, RefusesWhatCanNeverBeServed) {
  HostSetup setup;
  setup.blocks = 4;
  setup.max_batch_sequences = 3;
  start(setup);
  const wire::RunBody long_one = body(1, 129, 5);
  const wire::RunBody beyond_context = body(2, 512, 5);
  const wire::RunBody many = body(3, 10, 5, 4);
  wire::RunBody foreign = body(4, 10, 5);
  foreign.prompt[3] = 100'000;
  for (const wire::RunBody& request : {long_one, beyond_context, many, foreign}) {
    run(request);
  }
  ASSERT_TRUE(until([&] { return router_.failed.size() == 4; }));
  EXPECT_THAT(failure(long_one)->message, HasSubstr("does not fit the KV pool"));
  EXPECT_THAT(failure(beyond_context)->message, HasSubstr("maximum context length"));
  EXPECT_THAT(failure(many)->message, HasSubstr("n = 4"));
  EXPECT_THAT(failure(foreign)->message, HasSubstr("outside the vocabulary"));
  for (const wire::RunFailed& failed : router_.failed) {
    EXPECT_EQ(failed.code, StatusCode::kInvalidArgument);
    EXPECT_EQ(failed.from, Incarnation{22});
  }
  EXPECT_TRUE(host_->role().idle());
}

TEST_F(DecodeRoleTest, EndsASequenceThatOutgrowsThePool) {
  HostSetup setup;
  setup.blocks = 3;
  start(setup);
  const wire::RunBody request = body(1, 60, 200);
  run(request);
  ASSERT_TRUE(until([&] { return failure(request) != nullptr; }));
  EXPECT_EQ(failure(request)->code, StatusCode::kResourceExhausted);
  EXPECT_EQ(router_.output(request.key.request).size(), 37u) << "96 positions, one token ahead";
  expect_all_free();
}

TEST_F(DecodeRoleTest, NeverFeedsMoreSequencesThanTheBatchHolds) {
  HostSetup setup;
  setup.max_batch_sequences = 4;
  start(setup);
  std::vector<wire::RunBody> requests;
  for (uint64_t n = 1; n <= 6; ++n) {
    requests.push_back(body(n, 20, 12, n % 2 == 0 ? 4 : 2));
    run(requests.back());
  }
  ASSERT_TRUE(
      until([&] { return std::ranges::all_of(requests, [&](auto& r) { return finished(r); }); }));
  EXPECT_LE(host_->largest_batch, 4);
  for (const wire::RunBody& request : requests) {
    expect_right(request);
  }
}

TEST_F(DecodeRoleTest, RefusesWhenItsQueueIsFull) {
  HostSetup setup;
  setup.max_waiting = 2;
  setup.max_batch_sequences = 1;
  start(setup);
  const wire::RunBody running = body(1, 10, 400);
  run(running);
  ASSERT_TRUE(until([&] { return !router_.output(running.key.request).empty(); }));
  for (uint64_t n = 2; n <= 4; ++n) {
    run(body(n, 10, 5));
  }
  ASSERT_TRUE(until_paused([&] { return router_.failed.size() == 1; }));
  EXPECT_EQ(router_.failed[0].code, StatusCode::kResourceExhausted);
  EXPECT_EQ(router_.failed[0].key.request.value.lo, 4u);
  ASSERT_TRUE(until_paused([&] { return waiting() == 2; }));
  EXPECT_EQ(router_.heartbeats["d0"].running, 1u);
  EXPECT_EQ(router_.heartbeats["d0"].waiting_tokens, 20u);
  cancel(running);
  ASSERT_TRUE(until([&] { return finished(body(2, 10, 5)) && finished(body(3, 10, 5)); }));
}

TEST_F(DecodeRoleTest, CancelFreesEverythingInEveryState) {
  HostSetup setup;
  setup.max_batch_sequences = 2;
  start(setup);
  const wire::RunBody decoding = body(1, 10, 400, 2);
  run(decoding);
  ASSERT_TRUE(until([&] { return router_.output(decoding.key.request, 1).size() > 2; }));
  const wire::RunBody queued = body(2, 10, 400);
  run(queued);
  ASSERT_TRUE(until_paused([&] { return waiting() == 1; }));
  cancel(queued);
  ASSERT_TRUE(until_paused([&] { return waiting() == 0; }));

  // While a step computes it: its blocks stay until the step is done.
  ASSERT_TRUE(host_->begin_step());
  cancel(decoding);
  for (int beats = 0; beats < 3; ++beats) {
    router_.heartbeats.clear();
    ASSERT_TRUE(until_paused([&] { return router_.heartbeats.contains("d0"); }));
  }
  EXPECT_FALSE(host_->all_free());
  host_->end_step();
  expect_all_free();
  EXPECT_FALSE(host_->begin_step()) << "nothing is computed for it any more";

  const wire::RunBody prefilling = body(3, 300, 5);
  run(prefilling);
  ASSERT_TRUE(until_paused([&] { return running() == 1; }));
  ASSERT_TRUE(host_->begin_step());
  host_->end_step();
  cancel(prefilling);
  expect_all_free();
  EXPECT_TRUE(router_.output(prefilling.key.request).empty());
  EXPECT_TRUE(router_.failed.empty()) << "who cancels knows";
}

TEST_F(DecodeRoleTest, ACancelThatOvertakesItsRequestRefusesIt) {
  start();
  wire::RunBody request = body(1, 10, 5);
  request.key.attempt = 2;
  cancel(request);
  run(request);
  wire::RunBody older = request;
  older.key.attempt = 1;
  run(older);
  wire::RunBody newer = request;
  newer.key.attempt = 3;
  run(newer);
  ASSERT_TRUE(until([&] { return finished(newer); }));
  for (const wire::Tokens& tokens : router_.tokens) {
    EXPECT_EQ(tokens.key.attempt, 3);
  }
}

TEST_F(DecodeRoleTest, ANewerAttemptEndsTheOlderAndDuplicatesAreDropped) {
  start();
  wire::RunBody request = body(1, 10, 100);
  run(request);
  run(request);
  ASSERT_TRUE(until([&] { return router_.output(request.key.request).size() > 3; }));
  ASSERT_TRUE(until_paused([&] { return running() == 1; }));
  EXPECT_EQ(waiting(), 0u);
  request.key.attempt = 1;
  request.choices[0].output = router_.output(request.key.request);
  run(request);
  ASSERT_TRUE(until([&] { return finished(request); }));
  EXPECT_EQ(router_.output(request.key.request), oracle_.output(body(1, 10, 100)));
  EXPECT_EQ(router_.tokens.back().key.attempt, 1);
  expect_all_free();
}

TEST_F(DecodeRoleTest, ADeadlineEndsARequestWithATypedError) {
  start();
  wire::RunBody request = body(1, 10, 500);
  request.deadline_ms = 1;
  run(request);
  ASSERT_TRUE(until([&] { return failure(request) != nullptr; }));
  EXPECT_EQ(failure(request)->code, StatusCode::kDeadlineExceeded);
  expect_all_free();
}

TEST_F(DecodeRoleTest, ALostRouterEndsItsRequestsOnly) {
  start();
  const wire::RunBody mine = body(1, 10, 400);
  run(mine);
  ASSERT_TRUE(until([&] { return router_.output(mine.key.request).size() > 2; }));
  host_->role().on_router_lost(Incarnation{1234});
  EXPECT_FALSE(host_->role().idle());
  host_->role().on_router_lost(router_.incarnation());
  EXPECT_TRUE(host_->role().idle());
  EXPECT_TRUE(host_->all_free());
}

TEST_F(DecodeRoleTest, DrainsWhatRunsAndRefusesWhatComes) {
  start();
  const wire::RunBody running = body(1, 10, 50);
  run(running);
  ASSERT_TRUE(until([&] { return !router_.output(running.key.request).empty(); }));
  host_->role().begin_drain();
  const wire::RunBody late = body(2, 10, 5);
  run(late);
  ASSERT_TRUE(until([&] { return failure(late) != nullptr && finished(running); }));
  EXPECT_EQ(failure(late)->code, StatusCode::kUnavailable);
  expect_right(running);
  expect_all_free();
}

TEST_F(DecodeRoleTest, FailAllEndsEveryRequestWithTheReason) {
  HostSetup setup;
  setup.max_batch_sequences = 2;
  start(setup);
  for (uint64_t n = 1; n <= 4; ++n) {
    run(body(n, 10, 400));
  }
  ASSERT_TRUE(until_paused([&] { return waiting() == 2; }));
  ASSERT_TRUE(host_->begin_step());
  host_->role().fail_all(unavailable("worker is shutting down"));
  host_->end_step();
  EXPECT_TRUE(host_->role().idle());
  EXPECT_TRUE(host_->all_free());
  ASSERT_TRUE(until([&] { return router_.failed.size() == 4; }));
  EXPECT_EQ(router_.failed[0].message, "worker is shutting down");
}

}  // namespace
}  // namespace baton::decode_worker
