// Hand-overs as a decode worker sees them. The other side is a transfer agent that the test drives,
// with KV that a real engine has computed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/worker/run_convert.h"
#include "decode_worker/decode_fixture.h"

namespace baton::decode_worker {
namespace {

using testing::HasSubstr;

// Prefills with an engine and hands over as it is told.
class Sender {
 public:
  Sender(kv_transfer::InprocHub& hub, wire::DecodeTarget target)
      : target_(std::move(target)),
        registry_({.program = metrics::kByPrefill, .model_name = "tiny", .worker = "p0"}) {
    HostSetup setup;
    setup.role = config::Role::kPrefill;
    setup.max_chunk_tokens = 512;
    engine_ = std::move(engine::Engine::create(worker::tiny_engine(setup))).value();
    engine_->pool(0).fill(0xFFFF);
    blocks_ = worker::block_pools(*engine_, false);
    const auto options = inproc_agent_options(*engine_, wire::Role::kPrefill, "p0", 11, hub);
    agent_ =
        std::move(kv_transfer::TransferAgent::create(options, clock_, random_, registry_,
                                                     [this](kv_transfer::Event event) {
                                                       (void)events_.try_push(std::move(event));
                                                     }))
            .value();
  }
  struct Transfer {
    wire::RunBody body;
    worker::Sequence sequence;
    kv_transfer::TransferId id = 0;
    std::vector<wire::CommittedChoice> choices;
    int have_tokens = -1;
    std::optional<Status> failed;
    bool acked = false;
  };
  // Asks for room.
  Transfer& reserve(const wire::RunBody& body) {
    std::vector<TokenId> tokens = body.prompt;
    if (body.choices.size() == 1) {
      tokens.insert(tokens.end(), body.choices[0].output.begin(), body.choices[0].output.end());
    }
    transfers_.push_back(std::make_unique<Transfer>(
        Transfer{body,
                 worker::Sequence(SequenceId{transfers_.size() + 1}, tokens),
                 0,
                 {},
                 -1,
                 std::nullopt,
                 false}));
    Transfer& transfer = *transfers_.back();
    BATON_CHECK(transfer.sequence.reserve(transfer.sequence.size(), *blocks_).ok(), "too small");
    kv_transfer::OpenTransfer open;
    open.target = target_;
    open.body = body;
    open.kv_tokens = transfer.sequence.size();
    open.blocks.assign(transfer.sequence.blocks().begin(), transfer.sequence.blocks().end());
    open.deadline = TimePoint::max();
    transfer.id = agent_->open(std::move(open));
    return transfer;
  }
  // Computes the prompt, samples the first tokens, announces the KV.
  void prefill(Transfer& transfer) {
    const model::ModelDescription& model = engine_->description();
    std::vector<sampling::SequenceSampler> samplers;
    const size_t count = transfer.body.sampling.beam_width > 0 ? 1 : transfer.body.choices.size();
    for (size_t i = 0; i < count; ++i) {
      samplers.push_back(
          worker::make_sampler(transfer.body, i, model.vocab, model.max_context, nullptr));
    }
    auto plan = std::make_unique<engine::BatchPlan>();
    engine::SequencePlan* entry =
        transfer.sequence.feed(transfer.sequence.pending(), *blocks_, *plan).value();
    for (sampling::SequenceSampler& sampler : samplers) {
      entry->samples.push_back({&sampler});
    }
    const engine::StepOutput output = engine_->run(std::move(plan));
    for (size_t i = 0; i < samplers.size(); ++i) {
      const sampling::Sampled& sampled = output.sequences[0].samples[i];
      wire::CommittedChoice choice;
      choice.index = static_cast<uint32_t>(i);
      choice.output = {sampled.id};
      if (sampled.logprobs) {
        choice.logprobs = {worker::wire_logprob(*sampled.logprobs)};
      }
      choice.finished = worker::wire_finish(sampled.finish);
      transfer.choices.push_back(choice);
    }
    for (int layer = 0; layer < model.layers; ++layer) {
      agent_->layer_written(transfer.id, 0, layer, transfer.sequence.size());
    }
  }
  void commit(Transfer& transfer) { agent_->commit(transfer.id, transfer.choices, {}); }
  Transfer& hand_over(const wire::RunBody& body) {
    Transfer& transfer = reserve(body);
    prefill(transfer);
    commit(transfer);
    return transfer;
  }
  void abort(const Transfer& transfer) { agent_->abort(transfer.id, "test"); }
  void poll() {
    while (std::optional<kv_transfer::Event> event = events_.try_pop()) {
      if (const auto* granted = std::get_if<kv_transfer::TransferGranted>(&*event)) {
        find(granted->id).have_tokens = granted->have_tokens;
      } else if (const auto* acked = std::get_if<kv_transfer::TransferAcked>(&*event)) {
        find(acked->id).acked = true;
      } else if (const auto* failed = std::get_if<kv_transfer::TransferFailed>(&*event)) {
        find(failed->id).failed = failed->status;
      }
    }
  }
  void die() { agent_.reset(); }

 private:
  Transfer& find(kv_transfer::TransferId id) {
    for (const auto& transfer : transfers_) {
      if (transfer->id == id) {
        return *transfer;
      }
    }
    BATON_CHECK(false, "an event of no transfer");
    return *transfers_.front();
  }

  SteadyClock clock_;
  SystemRandom random_;
  wire::DecodeTarget target_;
  metrics::Registry registry_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<kv_cache::BlockPools> blocks_;
  std::vector<std::unique_ptr<Transfer>> transfers_;
  BoundedQueue<kv_transfer::Event> events_{{.items = 4096}};
  std::unique_ptr<kv_transfer::TransferAgent> agent_;
};

class DecodeTicketsTest : public DecodeFixture {
 protected:
  void start(const HostSetup& setup = {}) {
    ASSERT_NO_FATAL_FAILURE(DecodeFixture::start(setup));
    sender_.emplace(hub_, wire::DecodeTarget{"d0", Incarnation{22}, transfer_address_});
  }
  void poll_peers() override {
    if (sender_) {
      sender_->poll();
    }
  }
  // A stream that holds most of the pool; others wait until it is cancelled. Nothing is computed.
  wire::RunBody fill_pool() {
    const wire::RunBody hog = body(1000, 32 * (host_->blocks().total() - 3), 400);
    run(hog);
    EXPECT_TRUE(until([&] { return !router_.output(hog.key.request).empty(); }));
    host_->paused = true;
    return hog;
  }

  std::optional<Sender> sender_;
};

TEST_F(DecodeTicketsTest, AHandedOverRequestGetsTheTokensItGetsAlone) {
  start();
  std::vector<wire::RunBody> requests;
  uint64_t n = 0;
  for (const int prompt : {1, 31, 32, 33, 64, 150}) {
    for (const size_t choices : {1u, 3u}) {
      requests.push_back(body(++n, prompt, 20, choices));
      sender_->hand_over(requests.back());
    }
  }
  ASSERT_TRUE(
      until([&] { return std::ranges::all_of(requests, [&](auto& r) { return finished(r); }); }));
  for (const wire::RunBody& request : requests) {
    SCOPED_TRACE(request.prompt.size());
    expect_right(request);
  }
  EXPECT_EQ(host_->metric(metrics::MetricId::kPromptTokensComputed), 0);
  EXPECT_TRUE(router_.failed.empty());
  expect_all_free();
}

TEST_F(DecodeTicketsTest, RepeatsTheFirstTokenSoThatTheSendersDeathLosesNothing) {
  start();
  const wire::RunBody request = body(1, 40, 10);
  Sender::Transfer& transfer = sender_->hand_over(request);
  ASSERT_TRUE(until([&] { return transfer.acked; }));
  sender_->die();
  ASSERT_TRUE(until([&] { return finished(request); }));
  EXPECT_EQ(router_.tokens.front().first_index, 0u);
  expect_right(request);
}

TEST_F(DecodeTicketsTest, ABeamSearchGoesOnFromTheSendersCandidates) {
  start();
  std::vector<wire::RunBody> requests;
  for (const int prompt : {1, 31, 64}) {
    for (const bool here : {false, true}) {
      requests.push_back(body(requests.size() + 1, prompt, prompt == 1 ? 1 : 15, 4));
      requests.back().prompt.assign(static_cast<size_t>(prompt), 5);
      requests.back().sampling.beam_width = 4;
      here ? run(requests.back()) : void(sender_->hand_over(requests.back()));
    }
  }
  ASSERT_TRUE(
      until([&] { return std::ranges::all_of(requests, [&](auto& r) { return finished(r); }); }));
  for (size_t i = 0; i < requests.size(); i += 2) {
    for (uint32_t beam = 0; beam < 4; ++beam) {
      EXPECT_EQ(router_.output(requests[i].key.request, beam),
                router_.output(requests[i + 1].key.request, beam));
    }
  }
  expect_all_free();
}

TEST_F(DecodeTicketsTest, RefusesCandidatesOfABeamSearchThatAreNone) {
  start();
  const std::vector<std::function<void(std::vector<wire::CommittedChoice>&)>> faults = {
      [](auto& choices) { choices.clear(); },
      [](auto& choices) { choices[0].logprobs.clear(); },
      [](auto& choices) { choices[0].logprobs[0].top.pop_back(); },
      [](auto& choices) { choices[0].logprobs[0].top[1].first = 100'000; },
      [](auto& choices) { choices[0].logprobs[0].top[1].second = std::nanf(""); },
  };
  for (const auto& fault : faults) {
    wire::RunBody request = body(router_.failed.size() + 1, 40, 10, 2);
    request.sampling.beam_width = 2;
    Sender::Transfer& transfer = sender_->reserve(request);
    sender_->prefill(transfer);
    fault(transfer.choices);
    const size_t failures = router_.failed.size();
    sender_->commit(transfer);
    ASSERT_TRUE(until([&] { return router_.failed.size() == failures + 1; }));
    EXPECT_EQ(router_.failed.back().code, StatusCode::kInternal);
  }
  expect_all_free();
}

TEST_F(DecodeTicketsTest, OnlyChoicesThatGoOnAreDecoded) {
  start();
  const wire::RunBody request = body(1, 40, 10, 3);
  Sender::Transfer& transfer = sender_->reserve(request);
  sender_->prefill(transfer);
  transfer.choices[1].finished = wire::FinishReason::kStop;
  sender_->commit(transfer);
  ASSERT_TRUE(until([&] { return finished(request); }));
  EXPECT_EQ(router_.output(request.key.request, 0).size(), 10u);
  EXPECT_EQ(router_.output(request.key.request, 1).size(), 1u);
  EXPECT_EQ(router_.output(request.key.request, 2), oracle_.output(request, 2));
  expect_all_free();
}

TEST_F(DecodeTicketsTest, WhatItHasAlreadyIsNotSentAgain) {
  start();
  const wire::RunBody first = body(1, 150, 3);
  EXPECT_TRUE(until([&] { return true; }));
  Sender::Transfer& cold = sender_->hand_over(first);
  ASSERT_TRUE(until([&] { return finished(first) && cold.acked; }));
  EXPECT_EQ(cold.have_tokens, 0);
  wire::RunBody again = worker::repeated(first, 2);
  Sender::Transfer& warm = sender_->hand_over(again);
  ASSERT_TRUE(until([&] { return finished(again); }));
  EXPECT_EQ(warm.have_tokens, 128);
  EXPECT_EQ(router_.output(again.key.request), router_.output(first.key.request));
  wire::RunBody whole = worker::repeated(first, 3);  // every block of it is there
  whole.prompt.resize(128);
  Sender::Transfer& all = sender_->hand_over(whole);
  ASSERT_TRUE(until([&] { return finished(whole); }));
  EXPECT_EQ(all.have_tokens, 128);
  expect_right(whole);
  expect_all_free();
}

TEST_F(DecodeTicketsTest, PreemptedHandOversAreComputedAgainWithTheSameTokens) {
  HostSetup setup;
  setup.blocks = 10;
  start(setup);
  std::vector<wire::RunBody> requests;
  for (uint64_t n = 1; n <= 5; ++n) {
    requests.push_back(body(n, 30, 80, n == 3 ? 2 : 1));
    sender_->hand_over(requests.back());
  }
  requests.push_back(body(9, 50, 40));
  run(requests.back());
  ASSERT_TRUE(
      until([&] { return std::ranges::all_of(requests, [&](auto& r) { return finished(r); }); }));
  for (const wire::RunBody& request : requests) {
    expect_right(request);
  }
  EXPECT_GT(host_->metric(metrics::MetricId::kPreemptions), 0);
  expect_all_free();
}

TEST_F(DecodeTicketsTest, SiblingsWithoutABlockForTheirCopyStillFinish) {
  // Both hold their prompt's blocks before either has forked, and what is left is fewer than the
  // copies: no one may wait for the other.
  HostSetup setup;
  setup.blocks = 5;
  start(setup);
  const wire::RunBody many = body(1, 40, 20, 3);
  const wire::RunBody one = body(2, 20, 20);
  Sender::Transfer& first = sender_->reserve(many);
  ASSERT_TRUE(until([&] { return first.have_tokens == 0; }));
  run(one);
  sender_->prefill(first);
  sender_->commit(first);
  ASSERT_TRUE(until([&] { return finished(many) && finished(one); }));
  expect_right(many);
  expect_right(one);
  expect_all_free();
}

TEST_F(DecodeTicketsTest, AFullPoolKeepsTheOrderOfArrival) {
  HostSetup setup;
  setup.blocks = 8;
  start(setup);
  const wire::RunBody hog = fill_pool();
  const wire::RunBody large = body(1, 150, 3);
  Sender::Transfer& waits = sender_->hand_over(large);
  ASSERT_TRUE(until([&] { return waiting() == 1; }));
  const uint64_t queried = host_->blocks().stats().query_tokens;
  const wire::RunBody small = body(2, 5, 3);
  run(small);
  ASSERT_TRUE(until([&] { return waiting() == 2; }));
  EXPECT_EQ(waits.have_tokens, -1) << "not granted";
  EXPECT_EQ(router_.heartbeats["d0"].running, 1u) << "the small one would fit, but came later";
  EXPECT_EQ(host_->blocks().stats().query_tokens, queried) << "waiting is no query";
  cancel(hog);
  host_->paused = false;
  ASSERT_TRUE(until([&] { return finished(large) && finished(small); }));
  expect_right(large);
  expect_right(small);
  expect_all_free();
}

TEST_F(DecodeTicketsTest, CancelWhileReservingDeniesAndWhileGrantedAborts) {
  HostSetup setup;
  setup.blocks = 8;
  start(setup);
  const wire::RunBody hog = fill_pool();
  const wire::RunBody queued = body(1, 100, 5);
  Sender::Transfer& reserving = sender_->reserve(queued);
  ASSERT_TRUE(until([&] { return waiting() == 1; }));
  cancel(queued);
  ASSERT_TRUE(until([&] { return reserving.failed.has_value(); }));
  ASSERT_TRUE(until([&] { return waiting() == 0; }));
  cancel(hog);
  host_->paused = false;

  const wire::RunBody promised = body(2, 100, 5);
  Sender::Transfer& granted = sender_->reserve(promised);
  ASSERT_TRUE(until([&] { return granted.have_tokens >= 0; }));
  EXPECT_EQ(host_->blocks().counts().reserved, 4);
  sender_->prefill(granted);
  cancel(promised);
  ASSERT_TRUE(until([&] { return granted.failed.has_value(); }));
  EXPECT_FALSE(finished(promised));
  expect_all_free();
}

TEST_F(DecodeTicketsTest, CancelRightAfterTheCommitFreesEverything) {
  start();
  const wire::RunBody request = body(1, 100, 400);
  Sender::Transfer& transfer = sender_->hand_over(request);
  ASSERT_TRUE(until([&] { return transfer.acked; }));
  cancel(request);
  expect_all_free();
  EXPECT_FALSE(host_->begin_step());
}

TEST_F(DecodeTicketsTest, ASenderThatWithdrawsLeavesNothingBehind) {
  HostSetup setup;
  setup.blocks = 8;
  start(setup);
  const wire::RunBody hog = fill_pool();
  Sender::Transfer& queued = sender_->reserve(body(1, 100, 5));
  ASSERT_TRUE(until([&] { return waiting() == 1; }));
  sender_->abort(queued);
  ASSERT_TRUE(until([&] { return queued.failed.has_value() && waiting() == 0; }));
  cancel(hog);
  host_->paused = false;
  Sender::Transfer& granted = sender_->reserve(body(2, 100, 5));
  ASSERT_TRUE(until([&] { return granted.have_tokens >= 0; }));
  sender_->abort(granted);
  ASSERT_TRUE(until([&] { return granted.failed.has_value(); }));
  expect_all_free();
}

TEST_F(DecodeTicketsTest, ASenderThatDiesLeavesNothingBehind) {
  HostSetup setup;
  setup.blocks = 8;
  start(setup);
  const wire::RunBody granted = body(1, 100, 5);
  Sender::Transfer& transfer = sender_->reserve(granted);
  ASSERT_TRUE(until([&] { return transfer.have_tokens >= 0; }));
  sender_->reserve(body(2, 150, 5));
  ASSERT_TRUE(until([&] { return waiting() == 1; }));
  sender_->die();
  expect_all_free();
  EXPECT_TRUE(router_.failed.empty()) << "the router sees the death itself";
}

TEST_F(DecodeTicketsTest, RefusesReservationsThatItCannotServe) {
  HostSetup setup;
  setup.blocks = 6;
  start(setup);
  Sender::Transfer& large = sender_->reserve(body(1, 192, 5));
  wire::RunBody elsewhere = body(2, 10, 5);
  elsewhere.router = Incarnation{1234};
  Sender::Transfer& foreign = sender_->reserve(elsewhere);
  ASSERT_TRUE(until([&] { return large.failed && foreign.failed; }));
  EXPECT_THAT(large.failed->message(), HasSubstr("does not fit the KV pool"));
  EXPECT_THAT(foreign.failed->message(), HasSubstr("not connected to the router"));
  const wire::RunBody cancelled = body(3, 10, 5);
  cancel(cancelled);
  ASSERT_TRUE(until([&] { return true; }));
  Sender::Transfer& buried = sender_->reserve(cancelled);
  ASSERT_TRUE(until([&] { return buried.failed.has_value(); }));
  host_->role().begin_drain();
  Sender::Transfer& late = sender_->reserve(body(4, 10, 5));
  ASSERT_TRUE(until([&] { return late.failed.has_value(); }));
  EXPECT_THAT(late.failed->message(), HasSubstr("shutting down"));
  expect_all_free();
}

TEST_F(DecodeTicketsTest, ACommitThatAStepWouldTripOverEndsTheRequest) {
  start();
  const auto spoiled = [&](uint64_t n, const std::function<void(Sender::Transfer&)>& spoil) {
    const wire::RunBody request = body(n, 40, 10, 2);
    Sender::Transfer& transfer = sender_->reserve(request);
    sender_->prefill(transfer);
    spoil(transfer);
    sender_->commit(transfer);
    ASSERT_TRUE(until([&] { return router_.failed.size() == n; }));
    EXPECT_EQ(router_.failed.back().code, StatusCode::kInternal);
    EXPECT_THAT(router_.failed.back().message, HasSubstr("commit"));
  };
  spoiled(1, [](Sender::Transfer& t) { t.choices[1].index = 2; });
  spoiled(2, [](Sender::Transfer& t) { t.choices[1].index = 0; });
  spoiled(3, [](Sender::Transfer& t) { t.choices[1].output = {100'000}; });
  spoiled(4, [](Sender::Transfer& t) { t.choices[1].output.clear(); });
  spoiled(5, [](Sender::Transfer& t) { t.choices.pop_back(); });
  spoiled(6, [](Sender::Transfer& t) { t.choices[1].output.assign(500, 7); });
  expect_all_free();
}

TEST_F(DecodeTicketsTest, ANewerAttemptOrLegTakesOver) {
  start();
  wire::RunBody request = body(1, 60, 10);
  Sender::Transfer& old = sender_->reserve(request);
  ASSERT_TRUE(until([&] { return old.have_tokens >= 0; }));
  request.key.leg = 1;
  Sender::Transfer& leg = sender_->reserve(request);
  ASSERT_TRUE(until([&] { return old.failed && leg.have_tokens >= 0; }));
  request.key = {request.key.request, 1, 0};
  sender_->hand_over(request);
  ASSERT_TRUE(until([&] { return leg.failed && finished(request); }));
  for (const wire::Tokens& tokens : router_.tokens) {
    EXPECT_EQ(tokens.key.attempt, 1);
  }
  expect_right(request);
  wire::RunBody stale = request;
  stale.key.attempt = 0;
  expect_all_free();
}

TEST_F(DecodeTicketsTest, ADeadlineAbortsAGrantedTicket) {
  start();
  wire::RunBody request = body(1, 60, 10);
  request.deadline_ms = 30;
  Sender::Transfer& transfer = sender_->reserve(request);
  ASSERT_TRUE(until([&] { return transfer.failed.has_value() && router_.failed.size() == 1; }));
  EXPECT_EQ(router_.failed[0].code, StatusCode::kDeadlineExceeded);
  expect_all_free();
}

TEST_F(DecodeTicketsTest, ADrainWaitsForOpenTickets) {
  start();
  const wire::RunBody request = body(1, 60, 10);
  Sender::Transfer& transfer = sender_->reserve(request);
  ASSERT_TRUE(until([&] { return transfer.have_tokens >= 0; }));
  host_->role().begin_drain();
  EXPECT_FALSE(host_->role().idle());
  sender_->prefill(transfer);
  sender_->commit(transfer);
  ASSERT_TRUE(until([&] { return finished(request); }));
  expect_right(request);
  expect_all_free();
}

TEST_F(DecodeTicketsTest, FailAllEndsTicketsInEveryState) {
  HostSetup setup;
  setup.blocks = 8;
  start(setup);
  const wire::RunBody granted = body(1, 100, 5);
  Sender::Transfer& open = sender_->reserve(granted);
  ASSERT_TRUE(until([&] { return open.have_tokens >= 0; }));
  Sender::Transfer& queued = sender_->reserve(body(2, 150, 5));
  ASSERT_TRUE(until([&] { return waiting() == 1; }));
  host_->role().fail_all(unavailable("worker is shutting down"));
  ASSERT_TRUE(until([&] { return open.failed && queued.failed; }));
  ASSERT_TRUE(until([&] { return router_.failed.size() == 2; }));
  expect_all_free();
}

}  // namespace
}  // namespace baton::decode_worker
