#include "prefill_worker/prefill_role.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "prefill_worker/prefill_fixture.h"

namespace baton::prefill_worker {
namespace {

using testing::HasSubstr;

TEST_F(PrefillRoleTest, HandsOverKvFromWhichTheSameTokensFollow) {
  start();
  uint64_t n = 0;
  for (const int prompt : {1, 31, 32, 33, 64, 200}) {
    for (const size_t choices : {1u, 3u}) {
      const wire::RunBody request = body(++n, prompt, 8, choices);
      prefill(request);
      ASSERT_TRUE(until([&] { return d0_.commits.size() == n && host_->role().idle(); }));
      ASSERT_TRUE(until([&] {
        return !router_.output(request.key.request, static_cast<uint32_t>(choices - 1)).empty();
      }));
      for (size_t i = 0; i < choices; ++i) {
        const std::vector<TokenId> want = oracle_.output(request, i);
        EXPECT_EQ(d0_.output(request, i), want) << prompt << " tokens, choice " << i;
        EXPECT_EQ(router_.output(request.key.request, static_cast<uint32_t>(i)),
                  std::vector<TokenId>{want[0]});
      }
    }
  }
  EXPECT_EQ(d0_.commits.back().commit.timings.prefill_worker, "p0");
  expect_all_free();
}

TEST_F(PrefillRoleTest, TellsTheTimesOfTheTransferAfterItsEnd) {
  start();
  prefill(body(1, 100, 8));
  ASSERT_TRUE(until([&] { return router_.tokens.size() == 2; }));
  // With the first token what is known by then, so that the router has it whatever happens next.
  ASSERT_TRUE(router_.tokens[0].timings);
  EXPECT_EQ(router_.tokens[0].timings->prompt_tokens_computed, 100u);
  EXPECT_GT(router_.tokens[0].timings->prefill_ms, 0);
  EXPECT_GE(router_.tokens[0].timings->prefill_chunks, 2u);  // of at most 64 tokens
  EXPECT_EQ(router_.tokens[0].timings->transport, "");
  ASSERT_TRUE(router_.tokens[1].timings);
  EXPECT_GT(router_.tokens[1].timings->grant_ms, 0);
  EXPECT_EQ(router_.tokens[1].timings->transport, "inproc");
  EXPECT_GT(router_.tokens[1].timings->transfer_bytes, 0u);
  EXPECT_EQ(router_.tokens[1].timings->prompt_tokens_computed, 100u);
}

TEST_F(PrefillRoleTest, AMovedRequestBringsTheKvOfItsOutput) {
  start();
  const wire::RunBody whole = body(1, 50, 30);
  wire::RunBody moved = whole;
  moved.key.attempt = 1;
  const std::vector<TokenId> all = oracle_.output(whole);
  moved.choices[0].output.assign(all.begin(), all.begin() + 20);
  router_.expect_after(moved.key.request, 0, moved.choices[0].output);
  prefill(moved);
  // The token takes another way than the commit.
  ASSERT_TRUE(until(
      [&] { return d0_.commits.size() == 1 && router_.output(moved.key.request).size() > 20; }));
  EXPECT_EQ(d0_.reserves[0].kv_tokens, 70);
  EXPECT_EQ(router_.output(moved.key.request).size(), 21u);
  EXPECT_EQ(d0_.output(moved, 0), all);
}

TEST_F(PrefillRoleTest, OneTokenNeedsNoDecodeWorker) {
  start();
  const wire::RunBody request = body(1, 40, 1, 2);
  router_.send("p0", wire::Prefill{request, {}});
  ASSERT_TRUE(until([&] { return router_.finished(request.key.request, 2); }));
  EXPECT_TRUE(d0_.reserves.empty());
  EXPECT_EQ(router_.output(request.key.request, 1), oracle_.output(request, 1));
  expect_all_free();
}

TEST_F(PrefillRoleTest, AStopAtTheFirstTokenAbortsTheHandOver) {
  start();
  wire::RunBody request = body(1, 100, 50);
  request.sampling.stop_token_ids = {oracle_.output(body(1, 100, 1))[0]};
  prefill(request);
  ASSERT_TRUE(until([&] { return router_.finished(request.key.request); }));
  EXPECT_EQ(router_.finish(request.key.request), wire::FinishReason::kStop);
  expect_all_free();
  ASSERT_TRUE(
      until([&] { return d0_.withdrawn + d0_.aborted >= static_cast<int>(d0_.reserves.size()); }));
  EXPECT_TRUE(d0_.commits.empty());
  EXPECT_TRUE(router_.failed.empty());
}

TEST_F(PrefillRoleTest, ADenialLeadsToTheNextDecodeWorker) {
  start();
  d0_.answer = Receiver::Answer::kDeny;
  const wire::RunBody request = body(1, 100, 8);
  prefill(request);
  ASSERT_TRUE(until([&] { return d1_.commits.size() == 1 && !router_.legs.empty(); }));
  ASSERT_EQ(router_.legs.size(), 1u);
  EXPECT_EQ(router_.legs[0].key.leg, 1);
  EXPECT_EQ(router_.legs[0].from, Incarnation{11});
  EXPECT_EQ(d1_.reserves[0].body.key.leg, 1);
  EXPECT_EQ(d1_.output(request, 0), oracle_.output(request));
  expect_all_free();
}

TEST_F(PrefillRoleTest, WhenAllDenyTheRouterGetsTheReason) {
  start();
  d0_.answer = d1_.answer = Receiver::Answer::kDeny;
  const wire::RunBody request = body(1, 100, 8);
  prefill(request);
  ASSERT_TRUE(until([&] { return router_.failed.size() == 1; }));
  EXPECT_EQ(router_.failed[0].code, StatusCode::kResourceExhausted);
  EXPECT_THAT(router_.failed[0].message, HasSubstr("no room"));
  EXPECT_EQ(router_.failed[0].retry_after_ms, 7u);
  expect_all_free();
}

// Its limits, and that somebody ended it, say nothing of the request: the router tries again.
TEST_F(PrefillRoleTest, AFailedHandOverIsNoFaultOfTheRequest) {
  start();
  d0_.answer = d1_.answer = Receiver::Answer::kDeny;
  const std::vector<std::pair<Status, StatusCode>> cases = {
      {deadline_exceeded("the commit was not acknowledged"), StatusCode::kUnavailable},
      {cancelled("router lost"), StatusCode::kUnavailable},
      {unavailable("d1 is shutting down"), StatusCode::kUnavailable},
      {worker_lost("d1 is silent"), StatusCode::kWorkerLost},
      {incompatible("other segments"), StatusCode::kIncompatible},
      {invalid_argument("never fits"), StatusCode::kInvalidArgument},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    d1_.denial = cases[i].first;
    prefill(body(i + 1, 40, 8));
    ASSERT_TRUE(until([&] { return router_.failed.size() == i + 1; }));
    EXPECT_EQ(router_.failed[i].code, cases[i].second) << cases[i].first.to_string();
    EXPECT_THAT(router_.failed[i].message, HasSubstr(cases[i].first.message()));
  }
  expect_all_free();
}

TEST_F(PrefillRoleTest, ADecodeWorkerThatDiesLeadsToTheNext) {
  start();
  d0_.answer = Receiver::Answer::kHold;
  const wire::RunBody request = body(1, 100, 8);
  prefill(request);
  ASSERT_TRUE(until([&] { return d0_.reserves.size() == 1; }));
  d0_.die();
  ASSERT_TRUE(until([&] { return d1_.commits.size() == 1; }));
  EXPECT_EQ(d1_.output(request, 0), oracle_.output(request));
  expect_all_free();
}

TEST_F(PrefillRoleTest, AnUnreachableDecodeWorkerIsATypedError) {
  start();
  const wire::RunBody request = body(1, 100, 8);
  router_.send("p0", wire::Prefill{request, {{"dx", Incarnation{44}, "nonsense"}}});
  ASSERT_TRUE(until([&] { return router_.failed.size() == 1; }));
  EXPECT_NE(router_.failed[0].message, "");
  expect_all_free();
}

TEST_F(PrefillRoleTest, ShortPromptsShareAStepAndNoneIsOvertaken) {
  HostSetup setup = prefill_setup();
  setup.max_chunk_tokens = 128;
  start(setup);
  host_->paused = true;
  for (uint64_t n = 1; n <= 4; ++n) {
    prefill(body(n, n == 1 ? 300 : 30, 1));
  }
  ASSERT_TRUE(until([&] { return beat().waiting == 4; }));
  EXPECT_EQ(beat().waiting_tokens, 390u);
  host_->paused = false;
  ASSERT_TRUE(until([&] { return router_.finished(body(4, 30, 1).key.request); }));
  EXPECT_EQ(host_->largest_batch, 4);
  EXPECT_EQ(host_->steps, 4) << "300 + 3 x 30 tokens in chunks of 128";
  expect_all_free();
}

TEST_F(PrefillRoleTest, SaysHowLongThePromptsBehindTheFirstWillTake) {
  start();
  const wire::RunBody first = body(1, 300, 1);
  prefill(first);
  ASSERT_TRUE(until([&] { return router_.finished(first.key.request); }));
  EXPECT_EQ(host_->role().prompts_waiting(), 0ms);
  host_->paused = true;
  for (uint64_t n = 2; n <= 4; ++n) {
    prefill(body(n, n == 2 ? 300 : 30, 1));
  }
  ASSERT_TRUE(until([&] { return beat().waiting == 3; }));
  const double rate = beat().prefill_tokens_per_s;
  ASSERT_GT(rate, 0);
  EXPECT_NEAR(to_seconds(host_->role().prompts_waiting()), 60 / rate, 1e-6);
  host_->paused = false;
  ASSERT_TRUE(until([&] { return router_.finished(body(4, 30, 1).key.request); }));
  expect_all_free();
}

TEST_F(PrefillRoleTest, APromptStartsOnlyWhenAllItsBlocksFit) {
  HostSetup setup = prefill_setup();
  setup.blocks = 8;
  start(setup);
  d0_.answer = Receiver::Answer::kHold;
  prefill(body(1, 200, 8));  // 7 blocks, held until the hand-over ends
  prefill(body(2, 60, 8));
  ASSERT_TRUE(until([&] { return d0_.reserves.size() == 1 && beat().waiting == 1; }));
  EXPECT_EQ(host_->blocks().available(), 1);
  const uint64_t queried = host_->blocks().stats().query_tokens;
  router_.heartbeats.clear();
  ASSERT_TRUE(until([&] { return router_.heartbeats.contains("p0"); }));
  EXPECT_EQ(host_->blocks().stats().query_tokens, queried) << "waiting is no query";
  d0_.answer = Receiver::Answer::kGrant;
  d0_.grant(d0_.reserves[0]);
  ASSERT_TRUE(until([&] { return d0_.commits.size() == 2; }));
  EXPECT_EQ(d0_.output(body(2, 60, 8), 0), oracle_.output(body(2, 60, 8)));
  expect_all_free();
}

// Its KV may wait in half of the pool.
TEST_F(PrefillRoleTest, RequestsForAFullDecodeWorkerDelayNobodyElse) {
  HostSetup setup = prefill_setup();
  setup.blocks = 16;
  start(setup);
  d0_.answer = Receiver::Answer::kHold;
  prefill(body(1, 200, 8));  // 7 blocks
  ASSERT_TRUE(until([&] { return d0_.reserves.size() == 1; }));
  prefill(body(2, 100, 8));  // 4 blocks: would be more than half of the pool
  prefill(body(3, 20, 8));   // would fit, but it does not overtake
  const wire::RunBody elsewhere = body(4, 100, 8);
  router_.send("p0", wire::Prefill{elsewhere, {d1_.target()}});
  ASSERT_TRUE(until([&] { return d1_.commits.size() == 1; }));
  EXPECT_EQ(d1_.output(elsewhere, 0), oracle_.output(elsewhere));
  EXPECT_EQ(d0_.reserves.size(), 1u);
  const wire::RunBody single = body(5, 50, 1);  // needs no decode worker
  prefill(single);
  ASSERT_TRUE(until([&] { return router_.finished(single.key.request); }));
  EXPECT_EQ(host_->role().prompts_waiting(), 0ms) << "they wait for d0, which need not give way";
  d0_.answer = Receiver::Answer::kGrant;
  d0_.grant(d0_.reserves[0]);
  ASSERT_TRUE(until([&] { return d0_.commits.size() == 3; }));
  EXPECT_EQ(d0_.reserves[1].body.key.request, body(2, 100, 8).key.request);
  expect_all_free();
}

TEST_F(PrefillRoleTest, AChunkMayNeedNoNewBlock) {
  HostSetup setup = prefill_setup();
  setup.block_tokens = 64;
  setup.blocks = 8;
  setup.max_chunk_tokens = 32;
  start(setup);
  // 32, 32 in the same block, 32, and a rest that shares a step with another prompt's first.
  const wire::RunBody odd = body(1, 101, 8);
  const wire::RunBody other = body(2, 40, 8);
  prefill(odd);
  prefill(other);
  ASSERT_TRUE(until([&] { return d0_.commits.size() == 2; }));
  EXPECT_GE(host_->steps, 5);
  EXPECT_EQ(d0_.output(odd, 0), oracle_.output(odd));
  EXPECT_EQ(d0_.output(other, 0), oracle_.output(other));
  expect_all_free();
}

TEST_F(PrefillRoleTest, ACachedPrefixIsNotComputedAgain) {
  start();
  const wire::RunBody first = body(1, 100, 4);
  const wire::RunBody second = worker::repeated(first, 2);
  EXPECT_EQ(cached_of(first), 0u);
  EXPECT_EQ(cached_of(second), 96u);
  EXPECT_EQ(host_->metric(metrics::MetricId::kPromptTokensComputed), 104);
  EXPECT_EQ(d0_.output(second, 0), oracle_.output(first));
  expect_all_free();
}

TEST_F(PrefillRoleTest, APrefixThatEndsInsideABlockIsNotComputedAgain) {
  start();
  const wire::RunBody first = body(1, 100, 4);
  wire::RunBody second = worker::repeated(first, 2);
  second.prompt[70] ^= 1;
  EXPECT_EQ(cached_of(first), 0u);
  EXPECT_EQ(cached_of(second), 70u);
  EXPECT_EQ(host_->metric(metrics::MetricId::kPromptTokensComputed), 130);
  EXPECT_EQ(d0_.output(second, 0), oracle_.output(second));
  // The block that was copied from is as it was.
  const wire::RunBody third = worker::repeated(first, 3);
  EXPECT_EQ(cached_of(third), 96u);
  EXPECT_EQ(d0_.output(third, 0), oracle_.output(first));
  expect_all_free();
}

TEST_F(PrefillRoleTest, WhoMayUseWholeBlocksOnlyGetsNoPart) {
  start();
  const wire::RunBody first = body(1, 100, 4);
  wire::RunBody second = worker::repeated(first, 2);
  second.prompt[70] ^= 1;
  second.whole_blocks = true;
  EXPECT_EQ(cached_of(first), 0u);
  EXPECT_EQ(cached_of(second), 64u);
  EXPECT_EQ(d0_.output(second, 0), oracle_.output(second));
  expect_all_free();
}

TEST_F(PrefillRoleTest, WithoutABlockToSpareAPartIsComputedAgain) {
  HostSetup setup = prefill_setup();
  setup.blocks = 4;
  start(setup);
  const wire::RunBody first = body(1, 100, 4);
  wire::RunBody second = worker::repeated(first, 2);
  second.prompt[70] ^= 1;
  EXPECT_EQ(cached_of(first), 0u);
  ASSERT_TRUE(until([&] { return host_->role().idle(); }));
  EXPECT_EQ(cached_of(second), 64u);
  EXPECT_EQ(d0_.output(second, 0), oracle_.output(second));
  expect_all_free();
}

TEST_F(PrefillRoleTest, CancelFreesEverythingInEveryState) {
  HostSetup setup = prefill_setup();
  setup.blocks = 8;
  start(setup);
  d0_.answer = Receiver::Answer::kHold;
  const wire::RunBody computing = body(1, 200, 8);
  prefill(computing);
  ASSERT_TRUE(until_paused([&] { return beat().waiting == 1; }));
  ASSERT_TRUE(host_->begin_step());
  host_->end_step();
  const wire::RunBody waiting = body(2, 100, 8);
  prefill(waiting);
  ASSERT_TRUE(until_paused([&] { return beat().waiting == 1 && beat().running == 1; }));
  cancel(waiting);
  ASSERT_TRUE(until_paused([&] { return beat().waiting == 0; }));

  ASSERT_TRUE(host_->begin_step());
  cancel(computing);
  ASSERT_TRUE(until_paused([&] { return beat().waiting_tokens == 0; }));
  EXPECT_FALSE(host_->all_free()) << "a step reads its blocks";
  host_->end_step();
  expect_all_free();
  EXPECT_TRUE(router_.output(computing.key.request).empty());

  const wire::RunBody handing_over = body(3, 100, 8);
  prefill(handing_over);
  ASSERT_TRUE(until([&] { return !router_.output(handing_over.key.request).empty(); }));
  ASSERT_TRUE(until([&] { return d0_.reserves.size() == 2; }));
  cancel(handing_over);
  expect_all_free();
  ASSERT_TRUE(until([&] { return d0_.withdrawn == 2; }));
  EXPECT_TRUE(router_.failed.empty());
}

TEST_F(PrefillRoleTest, ACancelThatOvertakesItsRequestRefusesIt) {
  start();
  wire::RunBody request = body(1, 40, 8);
  request.key.attempt = 1;
  cancel(request);
  prefill(request);
  request.key.attempt = 2;
  prefill(request);
  ASSERT_TRUE(until([&] { return d0_.commits.size() == 1; }));
  EXPECT_EQ(d0_.reserves.size(), 1u);
  EXPECT_EQ(d0_.reserves[0].body.key.attempt, 2);
}

TEST_F(PrefillRoleTest, ANewerAttemptEndsTheOlderAndDuplicatesAreDropped) {
  start();
  d0_.answer = Receiver::Answer::kHold;
  wire::RunBody request = body(1, 40, 8);
  prefill(request);
  prefill(request);
  ASSERT_TRUE(until([&] { return d0_.reserves.size() == 1; }));
  d0_.answer = Receiver::Answer::kGrant;
  request.key.attempt = 1;
  prefill(request);
  ASSERT_TRUE(until([&] { return d0_.commits.size() == 1; }));
  EXPECT_EQ(d0_.withdrawn, 1);
  EXPECT_EQ(d0_.output(request, 0), oracle_.output(request));
  expect_all_free();
}

TEST_F(PrefillRoleTest, ALostRouterEndsItsRequestsOnly) {
  start();
  d0_.answer = Receiver::Answer::kHold;
  prefill(body(1, 40, 8));
  ASSERT_TRUE(until([&] { return d0_.reserves.size() == 1; }));
  host_->role().on_router_lost(Incarnation{1234});
  EXPECT_FALSE(host_->role().idle());
  host_->role().on_router_lost(router_.incarnation());
  expect_all_free();
}

TEST_F(PrefillRoleTest, ADeadlineEndsARequestThatNobodyTakes) {
  start();
  d0_.answer = Receiver::Answer::kHold;
  wire::RunBody request = body(1, 40, 8);
  request.deadline_ms = 50;
  prefill(request);
  ASSERT_TRUE(until([&] { return router_.failed.size() == 1; }));
  EXPECT_EQ(router_.failed[0].code, StatusCode::kDeadlineExceeded);
  expect_all_free();
}

TEST_F(PrefillRoleTest, RefusesWhatItCannotServe) {
  HostSetup setup = prefill_setup();
  setup.blocks = 4;
  setup.max_waiting = 2;
  start(setup);
  prefill(body(1, 129, 5));
  prefill(body(2, 512, 5));
  wire::RunBody moved = body(3, 10, 5, 2);
  moved.choices[0].output = {1};
  prefill(moved);
  wire::RunBody leg = body(4, 10, 5);
  leg.key.leg = 2;
  prefill(leg);
  router_.send("p0", wire::Prefill{body(5, 10, 5), {}});
  ASSERT_TRUE(until([&] { return router_.failed.size() == 5; }));
  EXPECT_THAT(router_.failed[0].message, HasSubstr("does not fit the KV pool"));
  EXPECT_THAT(router_.failed[1].message, HasSubstr("maximum context length"));
  EXPECT_EQ(router_.failed[2].code, StatusCode::kUnsupported);
  EXPECT_EQ(router_.failed[3].message, "leg 2 of 2 decode workers");
  EXPECT_THAT(router_.failed[4].message, HasSubstr("no decode worker"));
  host_->paused = true;
  for (uint64_t n = 6; n <= 8; ++n) {
    prefill(body(n, 10, 1));
  }
  ASSERT_TRUE(until([&] { return router_.failed.size() == 6; }));
  EXPECT_EQ(router_.failed[5].code, StatusCode::kResourceExhausted);
  host_->paused = false;
  expect_all_free();
}

TEST_F(PrefillRoleTest, ADrainFinishesWhatItHas) {
  start();
  d0_.answer = Receiver::Answer::kHold;
  const wire::RunBody request = body(1, 100, 8);
  prefill(request);
  ASSERT_TRUE(until([&] { return d0_.reserves.size() == 1; }));
  host_->role().begin_drain();
  prefill(body(2, 10, 5));
  ASSERT_TRUE(until([&] { return router_.failed.size() == 1; }));
  EXPECT_EQ(router_.failed[0].code, StatusCode::kUnavailable);
  EXPECT_FALSE(host_->role().idle());
  d0_.grant(d0_.reserves[0]);
  ASSERT_TRUE(until([&] { return d0_.commits.size() == 1; }));
  EXPECT_EQ(d0_.output(request, 0), oracle_.output(request));
  expect_all_free();
}

TEST_F(PrefillRoleTest, FailAllEndsEveryRequestWithTheReason) {
  HostSetup setup = prefill_setup();
  setup.blocks = 8;
  start(setup);
  d0_.answer = Receiver::Answer::kHold;
  prefill(body(1, 200, 8));
  prefill(body(2, 100, 8));
  ASSERT_TRUE(until([&] { return d0_.reserves.size() == 1 && beat().waiting == 1; }));
  host_->role().fail_all(unavailable("worker is shutting down"));
  expect_all_free();
  ASSERT_TRUE(until([&] { return router_.failed.size() == 2; }));
  EXPECT_EQ(router_.failed[0].message, "worker is shutting down");
}

TEST_F(PrefillRoleTest, MayBeDestroyedInMidFlight) {
  start();
  d0_.answer = Receiver::Answer::kHold;
  prefill(body(1, 300, 8));
  ASSERT_TRUE(until([&] { return d0_.reserves.size() == 1; }));
  host_->drop_role();
  EXPECT_TRUE(host_->all_free());
}

}  // namespace
}  // namespace baton::prefill_worker
