// Requests whose workers die: they wait for a worker to come back, and one that may be why is tried
// alone, then refused.

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <array>

#include "common/base/host_identity.h"
#include "router/router_loop_fixture.h"

namespace baton::router {
namespace {

// A process that a worker pretends to be, so that it can die.
class Body {
 public:
  Body() {
    std::string program = "/bin/sleep", time = "600";
    std::array<char*, 3> arguments = {program.data(), time.data(), nullptr};
    EXPECT_EQ(posix_spawn(&pid_, program.c_str(), nullptr, nullptr, arguments.data(), environ), 0);
  }
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;
  ~Body() { die(); }
  pid_t pid() const { return pid_; }
  void die() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
      pid_ = 0;
    }
  }

 private:
  pid_t pid_ = 0;
};

struct Mortal {
  Body body;
  std::unique_ptr<FakeWorker> worker;
  FakeWorker* operator->() const { return worker.get(); }
};

class RouterWaitsTest : public RouterLoopTest {
 protected:
  RouterWaitsTest() { config_.router.worker_wait = 10s; }

  std::unique_ptr<Mortal> mortal(wire::Role role, int number) {
    auto made = std::make_unique<Mortal>();
    wire::WorkerInfo info = worker_info(role, number);
    const HostIdentity host = this_process();
    info.boot_id = host.boot_id;
    info.pid_namespace = host.pid_namespace;
    info.pid = static_cast<uint32_t>(made->body.pid());
    made->worker = std::make_unique<FakeWorker>(context_, address_, info);
    EXPECT_EQ(made->worker->join(), "");
    return made;
  }
  std::vector<std::unique_ptr<Mortal>> decode_workers(int count) {
    std::vector<std::unique_ptr<Mortal>> made;
    for (int i = 0; i < count; ++i) {
      made.push_back(mortal(wire::Role::kDecode, i));
    }
    return made;
  }
  // Once the router has told `tokens` to clients, all of its workers taken together.
  void die_after(Mortal& worker, int tokens) {
    EXPECT_TRUE(eventually(
        [&] { return registry_.counter(metrics::MetricId::kGenerationTokens).value() >= tokens; }));
    worker.body.die();
  }
};

TEST_F(RouterWaitsTest, AMovedStreamWaitsForTheOnlyDecodeWorkerToComeBack) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = mortal(wire::Role::kDecode, 0);
  const auto answer = post(R"(,"stream":true)");
  const RunKey key = p0->next<wire::Prefill>()->body.key;
  (*d0)->tokens(key, 0, {10, 11});
  ASSERT_TRUE(answer->wait_written(1));
  d0->body.die();
  EXPECT_FALSE(p0->next<wire::Prefill>(50ms)) << "there is no decode worker";
  const auto reborn = worker(wire::Role::kDecode, 7);
  const auto again = p0->next<wire::Prefill>();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->body.key.attempt, 1);
  EXPECT_EQ(again->body.choices[0].output, (std::vector<TokenId>{10, 11}));
  reborn->tokens(again->body.key, 2, {12}, wire::FinishReason::kLength);
  ASSERT_TRUE(answer->wait_done());
  EXPECT_EQ(answer->body().find("error"), std::string::npos);
}

TEST_F(RouterWaitsTest, TheMostUrgentGetAWorkerFirst) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  EXPECT_TRUE(eventually([&] { return loop_->health().ready.load(); }));
  p0->send(wire::Goodbye{p0->id()});
  EXPECT_TRUE(eventually([&] { return !loop_->health().ready.load(); }));
  std::vector<std::shared_ptr<FakeResponder>> answers;
  for (const char* priority : {"0", "7", "0", "-3"}) {
    answers.push_back(post(R"(,"priority":)" + std::string(priority) + R"(,"seed":)" +
                           std::to_string(answers.size())));
  }
  // Commands are taken in order: with this answer all four wait.
  (void)ask([](auto responder) { return StatusAsked{{}, responder}; });
  const auto p1 = worker(wire::Role::kPrefill, 1);
  std::vector<std::pair<int64_t, uint64_t>> order;  // priority, seed
  for (size_t i = 0; i < answers.size(); ++i) {
    const auto prefill = p1->next<wire::Prefill>();
    ASSERT_TRUE(prefill);
    order.emplace_back(prefill->body.priority, prefill->body.sampling.seed);
    d0->tokens(prefill->body.key, 0, {10}, wire::FinishReason::kStop);
  }
  EXPECT_EQ(order, (std::vector<std::pair<int64_t, uint64_t>>{{-3, 3}, {0, 0}, {0, 2}, {7, 1}}));
  for (const auto& answer : answers) {
    EXPECT_TRUE(answer->wait_done());
  }
}

TEST_F(RouterWaitsTest, ANewRequestWaitsToo) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  EXPECT_TRUE(eventually([&] { return loop_->health().ready.load(); }));
  p0->send(wire::Goodbye{p0->id()});
  EXPECT_TRUE(eventually([&] { return !loop_->health().ready.load(); }));
  const auto answer = post();
  const auto p1 = worker(wire::Role::kPrefill, 1);
  const auto prefill = p1->next<wire::Prefill>();
  ASSERT_TRUE(prefill);
  d0->tokens(prefill->body.key, 0, {10}, wire::FinishReason::kStop);
  ASSERT_TRUE(answer->wait_done());
  EXPECT_EQ(answer->status(), 200);
}

TEST_F(RouterWaitsTest, TheWaitHasALimit) {
  config_.router.worker_wait = 200ms;
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  EXPECT_TRUE(eventually([&] { return loop_->health().ready.load(); }));
  d0->send(wire::Goodbye{d0->id()});
  EXPECT_TRUE(eventually([&] { return !loop_->health().ready.load(); }));
  const auto answer = post();
  ASSERT_TRUE(answer->wait_done());
  EXPECT_EQ(answer->status(), 503);
  EXPECT_FALSE(answer->headers().get("Retry-After").empty());
}

TEST_F(RouterWaitsTest, AMovedRequestThatWaitsInVainTellsWhatItLost) {
  config_.router.worker_wait = 200ms;
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = mortal(wire::Role::kDecode, 0);
  const auto answer = post();
  (*d0)->tokens(p0->next<wire::Prefill>()->body.key, 0, {10});
  die_after(*d0, 1);
  ASSERT_TRUE(answer->wait_done());
  EXPECT_EQ(answer->status(), 503);
  EXPECT_EQ(json(answer->body()).at("error").at("type"), "worker_lost_error");
}

// The last decode worker is not for experiments.
TEST_F(RouterWaitsTest, ASuspectIsNotTriedOnTheLastDecodeWorker) {
  config_.router.worker_wait = 300ms;
  config_.router.local_prefill = config::LocalPrefill::kAlways;
  start();
  const auto d = decode_workers(3);
  const auto suspect = post();
  for (size_t i = 0; i < 2; ++i) {
    const auto run = (*d[i])->next<wire::Run>();
    ASSERT_TRUE(run);
    (*d[i])->tokens(run->body.key, static_cast<uint32_t>(i), {10});
    die_after(*d[i], static_cast<int>(i) + 1);
  }
  ASSERT_TRUE(suspect->wait_done());
  EXPECT_EQ(suspect->status(), 500);
  const auto other = post();
  EXPECT_TRUE((*d[2])->next<wire::Run>());
}

// Two deaths make a suspect: it gets a worker of its own, and another death ends it.
TEST_F(RouterWaitsTest, ARequestThatKillsIsTriedAloneAndThenRefused) {
  config_.router.local_prefill = config::LocalPrefill::kAlways;
  start();
  const auto d = decode_workers(4);
  const auto deadly = post(R"(,"seed":1)");
  (*d[0])->tokens((*d[0])->next<wire::Run>()->body.key, 0, {10});
  die_after(*d[0], 1);
  const auto second = (*d[1])->next<wire::Run>();
  ASSERT_TRUE(second);
  (*d[1])->tokens(second->body.key, 1, {11});
  die_after(*d[1], 2);
  const auto third = (*d[2])->next<wire::Run>();
  ASSERT_TRUE(third);
  EXPECT_EQ(third->body.key.attempt, 2);
  const auto stranger = post(R"(,"seed":2)");
  const auto elsewhere = (*d[3])->next<wire::Run>();
  ASSERT_TRUE(elsewhere) << "nothing else goes to the worker of the suspect";
  (*d[2])->tokens(third->body.key, 2, {12});
  die_after(*d[2], 3);
  ASSERT_TRUE(deadly->wait_done());
  EXPECT_EQ(deadly->status(), 500);
  EXPECT_EQ(json(deadly->body()).at("error").at("type"), "worker_crashed_error");
  (*d[3])->tokens(elsewhere->body.key, 0, {10}, wire::FinishReason::kStop);
  ASSERT_TRUE(stranger->wait_done());
  EXPECT_EQ(stranger->status(), 200);
}

// It waits until the worker that is kept for it has nothing else.
TEST_F(RouterWaitsTest, ASuspectWaitsForAnIdleWorkerAndGivesItBack) {
  config_.router.local_prefill = config::LocalPrefill::kAlways;
  start();
  const auto d = decode_workers(4);
  const auto suspect = post(R"(,"seed":1)");
  (*d[0])->tokens((*d[0])->next<wire::Run>()->body.key, 0, {10});
  die_after(*d[0], 1);
  const auto second = (*d[1])->next<wire::Run>();
  ASSERT_TRUE(second);
  std::vector<std::shared_ptr<FakeResponder>> others;
  std::vector<RunKey> keys;
  for (size_t i = 2; i < 4; ++i) {
    others.push_back(post());
    keys.push_back((*d[i])->next<wire::Run>()->body.key);
  }
  (*d[1])->tokens(second->body.key, 1, {11});
  die_after(*d[1], 2);
  EXPECT_FALSE((*d[2])->next<wire::Run>(150ms)) << "it runs a request";
  (*d[2])->tokens(keys[0], 0, {20}, wire::FinishReason::kStop);
  const auto alone = (*d[2])->next<wire::Run>();
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->body.key.attempt, 2);
  (*d[2])->tokens(alone->body.key, 2, {12}, wire::FinishReason::kStop);
  ASSERT_TRUE(suspect->wait_done());
  EXPECT_EQ(suspect->status(), 200);
  const auto later = post();
  EXPECT_TRUE((*d[2])->next<wire::Run>()) << "given back";
}

// Workers that were told to stop are nobody's fault, however many they are.
TEST_F(RouterWaitsTest, AGoodbyeMakesNoSuspectAndCostsNoAttempt) {
  config_.router.local_prefill = config::LocalPrefill::kAlways;
  start();
  const auto d = decode_workers(9);
  const auto answer = post();
  for (size_t i = 0; i < 8; ++i) {
    const auto run = (*d[i])->next<wire::Run>();
    ASSERT_TRUE(run) << i;
    if (i % 2 == 0) {
      (*d[i])->send(wire::Goodbye{(*d[i])->id()});
      continue;
    }
    wire::Heartbeat drains;
    drains.incarnation = (*d[i])->id();
    drains.draining = true;
    (*d[i])->send(drains);
    (*d[i])->fail(run->body.key, StatusCode::kUnavailable, "worker is shutting down");
  }
  const auto last = (*d[8])->next<wire::Run>();
  ASSERT_TRUE(last);
  (*d[8])->tokens(last->body.key, 0, {10}, wire::FinishReason::kStop);
  ASSERT_TRUE(answer->wait_done());
  EXPECT_EQ(answer->status(), 200);
}

// A worker that refuses for a moment (it drains, its link rests) must not use up all attempts.
TEST_F(RouterLoopTest, AttemptsAfterTheSecondWaitLongerEachTime) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto answer = post();
  std::vector<TimePoint> placed;
  for (int attempt = 0; attempt < 4; ++attempt) {
    const auto prefill = p0->next<wire::Prefill>();
    ASSERT_TRUE(prefill);
    placed.push_back(clock_.now());
    p0->fail(prefill->body.key, StatusCode::kUnavailable, "d0 failed a moment ago");
  }
  EXPECT_GE(placed[2] - placed[1], 90ms);
  EXPECT_GE(placed[3] - placed[2], 190ms);
  const auto last = p0->next<wire::Prefill>();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->body.key.attempt, 4);
  d0->tokens(last->body.key, 0, {10}, wire::FinishReason::kStop);
  ASSERT_TRUE(answer->wait_done());
  EXPECT_EQ(answer->status(), 200);
}

// Its blocks are cache there now, though no heartbeat has said so yet.
TEST_F(RouterLoopTest, ARunThatNobodyTookGoesBackToWhereItsPromptIs) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto p1 = worker(wire::Role::kPrefill, 1);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto busy = post();  // keeps p0 occupied, so that the prompt goes to p1
  const RunKey of_p0 = p0->next<wire::Prefill>()->body.key;
  const auto answer = post(prompt_of(70));
  const auto first = p1->next<wire::Prefill>();
  ASSERT_TRUE(first);
  p0->tokens(of_p0, 0, {10}, wire::FinishReason::kLength);
  ASSERT_TRUE(busy->wait_done());
  p1->tokens(first->body.key, 0, {10});
  p1->fail(first->body.key, StatusCode::kUnavailable, "d0 refused the commit");
  const auto second = p1->next<wire::Prefill>();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->body.key.attempt, 1);
  EXPECT_EQ(second->body.choices[0].output, std::vector<TokenId>{10});
  p1->tokens(second->body.key, 1, {11});
  d0->tokens(second->body.key, 1, {11, 12}, wire::FinishReason::kLength);
  ASSERT_TRUE(answer->wait_done());
  EXPECT_EQ(answer->status(), 200);
}

TEST_F(RouterLoopTest, ABeamSearchStartsAgainOnAnotherWorkerAndTellsEachChoiceOnce) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto d1 = worker(wire::Role::kDecode, 1);
  const auto answer = post(R"(,"use_beam_search":true,"n":2,"length_penalty":0)");
  const auto first = p0->next<wire::Prefill>();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->body.sampling.beam_width, 2u);
  EXPECT_EQ(first->body.sampling.length_penalty, 0);
  wire::Tokens times;
  times.key = first->body.key;
  times.from = p0->id();
  times.timings = wire::RunTimings{};
  p0->send(times);
  times.from = d0->id();
  d0->send(times);
  d0->tokens(first->body.key, 0, {10, 11}, wire::FinishReason::kStop, 0);
  EXPECT_TRUE(eventually(
      [&] { return registry_.counter(metrics::MetricId::kGenerationTokens).value() == 2; }));
  d0->send(wire::Goodbye{d0->id()});
  const auto second = p0->next<wire::Prefill>();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->body.key.attempt, 1);
  for (const wire::ChoiceState& choice : second->body.choices) {
    EXPECT_TRUE(choice.output.empty());
    EXPECT_EQ(choice.finished, wire::FinishReason::kNone);
  }
  d1->tokens(second->body.key, 0, {10, 11}, wire::FinishReason::kStop, 0);
  d1->tokens(second->body.key, 0, {12, 13}, wire::FinishReason::kLength, 1);
  ASSERT_TRUE(answer->wait_done());
  const boost::json::value got = json(answer->body());
  EXPECT_EQ(got.at("choices").at(0).at("text").as_string(), decoded({10, 11}));
  EXPECT_EQ(got.at("choices").at(1).at("text").as_string(), decoded({12, 13}));
  EXPECT_EQ(got.at("usage").at("completion_tokens"), 4);
  // All of it came at once: it says nothing about tokens.
  EXPECT_EQ(registry_.histogram(metrics::MetricId::kTimeToFirstToken).count(), 0u);
  EXPECT_EQ(registry_.histogram(metrics::MetricId::kInterTokenLatency).count(), 0u);
}

// Requests that a full queue would make late (router.slo_ttft = 1 s).
class RouterLimitTest : public RouterLoopTest {
 protected:
  RouterLimitTest() { config_.router.slo_ttft = 1s; }

  // The worker says that so many prompt tokens wait at it, of which it computes 1,000 a second;
  // then the router has heard it.
  void queue(FakeWorker& worker, uint32_t tokens) {
    wire::Heartbeat heartbeat;
    heartbeat.incarnation = worker.id();
    heartbeat.blocks_total = heartbeat.blocks_free = 100;
    heartbeat.waiting_tokens = tokens;
    heartbeat.waiting = tokens;
    heartbeat.prefill_tokens_per_s = 1000;
    worker.send(heartbeat);
    EXPECT_TRUE(eventually([&] {
      const boost::json::value status =
          ask([](auto responder) { return StatusAsked{{}, responder}; });
      for (const boost::json::value& one : status.at("workers").as_array()) {
        if (one.at("name").as_string() == worker.info().name) {
          return one.at("waiting").to_number<uint32_t>() == tokens;
        }
      }
      return false;
    }));
  }
  static std::string ones(int tokens) {
    std::string out = "1";
    for (int i = 1; i < tokens; ++i) {
      out += ",1";
    }
    return out;
  }
};

TEST_F(RouterLimitTest, RefusesWhatWouldComeTooLateAndSaysWhenToComeBack) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  queue(*p0, 10'000);
  const auto late = post();
  ASSERT_TRUE(late->wait_done());
  EXPECT_EQ(late->status(), 429);
  EXPECT_EQ(json(late->body()).at("error").at("message"),
            "the first token would come after 12003 ms, the limit is 1000 ms");
  EXPECT_EQ(late->headers().get("Retry-After"), "11") << "ten seconds of queue, a fifth more";
  EXPECT_FALSE(p0->next<wire::Prefill>(20ms)) << "refused before its prefill";
  queue(*p0, 500);
  const auto served = post();
  EXPECT_TRUE(p0->next<wire::Prefill>());
}

TEST_F(RouterLimitTest, APromptThatIsDoneNoLongerWaits) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto first = post(R"(,"prompt":[)" + ones(600) + "]");
  const auto prefill = p0->next<wire::Prefill>();
  ASSERT_TRUE(prefill);
  queue(*p0, 1'100);
  const auto late = post();
  ASSERT_TRUE(late->wait_done());
  EXPECT_EQ(late->status(), 429);
  p0->tokens(prefill->body.key, 0, {10}, wire::FinishReason::kStop);
  ASSERT_TRUE(first->wait_done());
  const auto served = post();
  EXPECT_TRUE(p0->next<wire::Prefill>()) << "no heartbeat has come since";
}

TEST_F(RouterLimitTest, TakesTheWorkerThatIsInTime) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto p1 = worker(wire::Role::kPrefill, 1);
  const auto d0 = worker(wire::Role::kDecode, 0);
  queue(*p0, 10'000);
  const auto served = post();
  EXPECT_TRUE(p1->next<wire::Prefill>());
}

TEST_F(RouterLimitTest, RefusesNothingThatNothingWaitsBefore) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  queue(*p0, 0);
  const auto served = post(R"(,"prompt":[)" + ones(5'000) + "]");
  EXPECT_TRUE(p0->next<wire::Prefill>()) << "five seconds, but no other time would be better";
}

TEST_F(RouterLimitTest, AMovedRequestIsNotRefused) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto moved = post();
  ASSERT_TRUE(p0->next<wire::Prefill>());
  const auto p1 = worker(wire::Role::kPrefill, 1);
  queue(*p1, 10'000);
  p0->send(wire::Goodbye{p0->id()});
  EXPECT_TRUE(p1->next<wire::Prefill>());
}

// Its queue is short, but it stands still.
TEST_F(RouterLimitTest, AWorkerThatIsLateCountsAsSlow) {
  config_.router.slo_ttft = 100ms;
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  queue(*p0, 0);
  const auto waiting = post();
  const auto run = p0->next<wire::Prefill>();
  ASSERT_TRUE(run);
  EXPECT_TRUE(eventually([&] {
    const auto next = post();
    return eventually([&] { return next->done() || p0->next<wire::Prefill>(1ms); }) &&
           next->done() && next->status() == 429;
  }));
}

TEST_F(RouterLimitTest, WithoutALimitAllWait) {
  config_.router.slo_ttft = 0s;
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  queue(*p0, 1'000'000);
  const auto served = post();
  EXPECT_TRUE(p0->next<wire::Prefill>());
}

}  // namespace
}  // namespace baton::router
