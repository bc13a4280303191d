#include "router/router_loop_fixture.h"

namespace baton::router {
namespace {

using wire::FinishReason;

TEST_F(RouterLoopTest, SendsARequestRoundTheRing) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto answer = post();
  const auto prefill = p0->next<wire::Prefill>();
  ASSERT_TRUE(prefill);
  EXPECT_EQ(prefill->body.prompt, (std::vector<TokenId>{5, 6, 7}));
  EXPECT_EQ(prefill->body.router.value, 55u);
  EXPECT_NE(prefill->body.sampling.seed, 0u);
  EXPECT_GT(prefill->body.deadline_ms, 0u);
  ASSERT_EQ(prefill->decodes.size(), 1u);
  EXPECT_EQ(prefill->decodes[0].name, "d0");
  const RunKey key = prefill->body.key;
  p0->tokens(key, 0, {10});
  d0->tokens(key, 0, {10});  // D repeats what P sent
  d0->tokens(key, 1, {11, 12}, FinishReason::kLength);
  ASSERT_TRUE(answer->wait_done());
  EXPECT_EQ(answer->status(), 200);
  EXPECT_EQ(text(*answer), decoded({10, 11, 12}));
  EXPECT_EQ(json(answer->body()).at("usage").at("completion_tokens"), 3);
  EXPECT_EQ(ended("length"), 1);
}

TEST_F(RouterLoopTest, RunsLocallyWhenItAlwaysShould) {
  config_.router.local_prefill = config::LocalPrefill::kAlways;
  start();
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto answer = post(R"(,"seed":9)");
  const auto run = d0->next<wire::Run>();
  ASSERT_TRUE(run);
  EXPECT_EQ(run->body.sampling.seed, 9u);
  d0->tokens(run->body.key, 0, {10}, FinishReason::kLength);
  ASSERT_TRUE(answer->wait_done());
  EXPECT_EQ(text(*answer), decoded({10}));
}

TEST_F(RouterLoopTest, AnswersWithoutWorkersAtOnce) {
  start();
  const auto answer = post();
  ASSERT_TRUE(answer->wait_done());
  EXPECT_EQ(answer->status(), 503);
  EXPECT_TRUE(answer->headers().contains("Retry-After"));
  EXPECT_EQ(json(answer->body()).at("error").at("message"), "no decode worker is ready");
}

TEST_F(RouterLoopTest, RefusesMoreThanMayWait) {
  config_.router.max_waiting = 1;
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto first = post();
  const auto key = p0->next<wire::Prefill>()->body.key;
  const auto second = post();
  ASSERT_TRUE(second->wait_done());
  EXPECT_EQ(second->status(), 429);
  EXPECT_EQ(json(second->body()).at("error").at("message"),
            "1 requests are waiting, the limit is 1");
  p0->tokens(key, 0, {10}, FinishReason::kStop);  // its place is free again
  ASSERT_TRUE(first->wait_done());
  const auto third = post();
  EXPECT_TRUE(p0->next<wire::Prefill>());
}

TEST_F(RouterLoopTest, SendsEveryPromptAndChoiceOfARequest) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto answer = post(R"(,"prompt":[[1],[2]],"n":2)");
  for (const TokenId prompt : {1, 2}) {
    const auto prefill = p0->next<wire::Prefill>();
    ASSERT_TRUE(prefill);
    EXPECT_EQ(prefill->body.prompt, std::vector<TokenId>{prompt});
    EXPECT_EQ(prefill->body.choices.size(), 2u);
    for (const uint32_t choice : {1u, 0u}) {
      p0->tokens(prefill->body.key, 0,
                 {static_cast<TokenId>(10 * prompt) + static_cast<int>(choice)},
                 FinishReason::kLength, choice);
    }
  }
  ASSERT_TRUE(answer->wait_done());
  const boost::json::value got = json(answer->body());
  ASSERT_EQ(got.at("choices").as_array().size(), 4u);
  EXPECT_EQ(got.at("choices").at(3).at("text").as_string(), decoded({21}));
}

wire::PromptLogprobs scores(const RunKey& key, Incarnation from, uint32_t first,
                            const std::vector<float>& values) {
  wire::PromptLogprobs message{key, from, first, {}};
  for (const float value : values) {
    message.logprobs.push_back({value, {}, 1});
  }
  return message;
}

TEST_F(RouterLoopTest, OutputWaitsForThePromptsLogprobs) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto answer = post(R"(,"echo":true,"logprobs":0)");
  const auto prefill = p0->next<wire::Prefill>();
  ASSERT_TRUE(prefill);
  EXPECT_EQ(prefill->body.prompt_logprobs, 0);
  const RunKey key = prefill->body.key;
  d0->tokens(key, 0, {10, 11}, FinishReason::kLength);  // overtakes what P sent
  p0->send(scores(key, p0->id(), 1, {-1}));
  p0->send(scores(key, p0->id(), 1, {-1, -2}));  // again after a preemption, and more
  ASSERT_TRUE(answer->wait_done());
  const boost::json::value choice = json(answer->body()).at("choices").at(0);
  EXPECT_EQ(choice.at("text"), boost::json::value(decoded({5, 6, 7}) + decoded({10, 11})));
  const boost::json::value& values = choice.at("logprobs").at("token_logprobs");
  EXPECT_TRUE(values.at(0).is_null());
  EXPECT_EQ(values.at(1), -1);
  EXPECT_EQ(values.at(2), -2);
}

TEST_F(RouterLoopTest, MovesARunWhosePromptLogprobsDiedWithTheirWorker) {
  start();
  auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto answer = post(R"(,"prompt_logprobs":0)");
  const auto prefill = p0->next<wire::Prefill>();
  ASSERT_TRUE(prefill);
  p0->send(scores(prefill->body.key, p0->id(), 1, {-1}));
  d0->tokens(prefill->body.key, 0, {10});
  const auto p1 = worker(wire::Role::kPrefill, 1);
  p0->send(wire::Goodbye{p0->id()});
  const auto again = p1->next<wire::Prefill>();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->body.key.attempt, 1);
  EXPECT_EQ(again->body.prompt_logprobs, 0);
  EXPECT_TRUE(again->body.choices[0].output.empty()) << "the client has seen nothing";
  p1->send(scores(again->body.key, p1->id(), 1, {-1, -2}));
  p1->tokens(again->body.key, 0, {10}, FinishReason::kLength);
  ASSERT_TRUE(answer->wait_done());
  const boost::json::value choice = json(answer->body()).at("choices").at(0);
  EXPECT_EQ(choice.at("prompt_logprobs").as_array().size(), 3u);
}

TEST_F(RouterLoopTest, RefusesAWorkerThatDoesNotTellPromptLogprobs) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto answer = post(R"(,"prompt_logprobs":0)");
  p0->tokens(p0->next<wire::Prefill>()->body.key, 0, {10}, FinishReason::kLength);
  ASSERT_TRUE(answer->wait_done());
  EXPECT_EQ(answer->status(), 503);
}

TEST_F(RouterLoopTest, ComparesTheChoicesOfBestOfByTheirLogprobs) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  (void)post(R"(,"best_of":3)");
  const auto prefill = p0->next<wire::Prefill>();
  ASSERT_TRUE(prefill);
  EXPECT_EQ(prefill->body.choices.size(), 3u);
  EXPECT_EQ(prefill->body.sampling.logprobs, 0);
  EXPECT_EQ(prefill->body.prompt_logprobs, -1);
}

TEST_F(RouterLoopTest, CancelsEverywhereAtAStopString) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const TokenId x = tokenizer_.encode("x")[0];
  const auto answer = post(R"(,"stop":"x")");
  const RunKey key = p0->next<wire::Prefill>()->body.key;
  p0->tokens(key, 0, {10});
  d0->tokens(key, 0, {10, x});
  ASSERT_TRUE(answer->wait_done());
  EXPECT_EQ(text(*answer), decoded({10}));
  EXPECT_EQ(json(answer->body()).at("choices").at(0).at("stop_reason"), "x");
  EXPECT_EQ(p0->next<wire::Cancel>()->reason, "stop");
  EXPECT_EQ(d0->next<wire::Cancel>()->request, key.request);
  d0->tokens(key, 2, {11});  // was on its way: the sender is told again
  EXPECT_EQ(d0->next<wire::Cancel>()->reason, "superseded");
}

// What a client calls its request names nothing in the cluster.
TEST_F(RouterLoopTest, RequestsMayCarryTheSameIdOfTheirClients) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto first = post();
  const RunKey one = p0->next<wire::Prefill>()->body.key;
  const auto second = post();  // the same id in its answer
  const RunKey other = p0->next<wire::Prefill>()->body.key;
  EXPECT_NE(one.request, other.request);
  d0->tokens(other, 0, {11}, FinishReason::kLength);
  d0->tokens(one, 0, {10}, FinishReason::kLength);
  ASSERT_TRUE(first->wait_done() && second->wait_done());
  EXPECT_EQ(text(*first), decoded({10}));
  EXPECT_EQ(text(*second), decoded({11}));
}

TEST_F(RouterLoopTest, ListsOfLogprobsEndTogetherAtAStopString) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const TokenId x = tokenizer_.encode("x")[0];
  const auto answer = post(R"(,"stop":"x","logprobs":1,"return_token_ids":true)");
  wire::Tokens message;
  message.key = p0->next<wire::Prefill>()->body.key;
  message.from = d0->id();
  message.ids = {10, x, 11, 12};  // those after the stop were on their way
  message.logprobs.assign(4, {-0.5f, {{10, -0.5f}}, 0});
  d0->send(message);
  ASSERT_TRUE(answer->wait_done());
  const boost::json::value choice = json(answer->body()).at("choices").at(0);
  EXPECT_EQ(std::string(choice.at("text").as_string()), decoded({10}));
  EXPECT_EQ(choice.at("token_ids").as_array().size(), 2u);
  for (const char* list : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) {
    EXPECT_EQ(choice.at("logprobs").at(list).as_array().size(), 2u) << list;
  }
}

TEST_F(RouterLoopTest, SendsNoCancelWhenTheWorkersKnowTheEnd) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto answer = post();
  const RunKey key = p0->next<wire::Prefill>()->body.key;
  p0->tokens(key, 0, {10}, FinishReason::kStop);
  ASSERT_TRUE(answer->wait_done());
  const auto other = post();  // the next message is the next request, not a cancel
  EXPECT_TRUE(p0->next<wire::Prefill>());
  EXPECT_FALSE(d0->next<wire::Cancel>(50ms));
}

TEST_F(RouterLoopTest, StopsTheWorkOfAClientThatLeft) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  uint64_t id = 0;
  const auto answer = post("", &id);
  const RunKey key = p0->next<wire::Prefill>()->body.key;
  EXPECT_TRUE(loop_->post(ClientGone{id}));
  EXPECT_EQ(p0->next<wire::Cancel>()->request, key.request);
  EXPECT_EQ(d0->next<wire::Cancel>()->reason, "client");
  EXPECT_FALSE(answer->done());
  EXPECT_TRUE(eventually([&] { return ended("abort") == 1; }));
}

TEST_F(RouterLoopTest, NoticesAClientThatLeftWithoutBeingTold) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto answer = post(R"(,"stream":true)");
  ASSERT_TRUE(p0->next<wire::Prefill>());
  answer->close();
  EXPECT_TRUE(p0->next<wire::Cancel>());
}

TEST_F(RouterLoopTest, GoesOnWithTheOutputAfterADecodeWorkersDeath) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto d1 = worker(wire::Role::kDecode, 1);
  const auto answer = post(R"(,"seed":4,"stream":true)");
  const auto first = p0->next<wire::Prefill>();
  ASSERT_EQ(first->decodes.size(), 2u);
  const RunKey key = first->body.key;
  p0->tokens(key, 0, {10});
  d0->tokens(key, 0, {10, 11});
  ASSERT_TRUE(answer->wait_written(1));
  EXPECT_TRUE(eventually(
      [&] { return registry_.counter(metrics::MetricId::kGenerationTokens).value() == 2; }));
  d0->send(wire::Goodbye{d0->id()});
  EXPECT_EQ(p0->next<wire::Cancel>()->attempt, 0);
  const auto second = p0->next<wire::Prefill>();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->body.key.attempt, 1);
  EXPECT_EQ(second->body.key.request, key.request);
  EXPECT_EQ(second->body.choices[0].output, (std::vector<TokenId>{10, 11}));
  EXPECT_EQ(second->body.sampling.seed, 4u);
  EXPECT_GT(second->body.deadline_ms, 0u);
  ASSERT_EQ(second->decodes.size(), 1u);
  EXPECT_EQ(second->decodes[0].name, "d1");
  p0->tokens(key, 2, {99});  // of the attempt that was given up
  p0->tokens(second->body.key, 2, {12});
  d1->tokens(second->body.key, 2, {12});
  d1->tokens(second->body.key, 3, {13}, FinishReason::kLength);
  ASSERT_TRUE(answer->wait_done());
  std::string streamed;
  for (const std::string& event : events(answer->body())) {
    if (event != "[DONE]") {
      streamed += json(event).at("choices").at(0).at("text").as_string();
    }
  }
  EXPECT_EQ(streamed, decoded({10, 11, 12, 13}));
  EXPECT_EQ(registry_.counter(metrics::MetricId::kStreamsMoved, {"drain"}).value(), 1);
  const boost::json::value told = explain("cmpl-x");
  EXPECT_EQ(told.at("moves"), 1);
  EXPECT_EQ(told.at("attempts").at(0).at("decode"), "d0");
  EXPECT_EQ(told.at("attempts").at(1).at("decode"), "d1");
  EXPECT_EQ(told.at("attempts").at(1).at("moved_because"), "decode worker d0 is gone (left)");
}

TEST_F(RouterLoopTest, LeavesARunAloneWhoseDeadPrefillWorkerHandedItOver) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto answer = post(R"(,"stream":true)");
  const RunKey key = p0->next<wire::Prefill>()->body.key;
  d0->tokens(key, 0, {10});
  ASSERT_TRUE(answer->wait_written(1));
  p0->send(wire::Goodbye{p0->id()});
  d0->tokens(key, 1, {11}, FinishReason::kStop);
  ASSERT_TRUE(answer->wait_done());
  EXPECT_TRUE(answer->body().ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(answer->body().find("error"), std::string::npos);
}

TEST_F(RouterLoopTest, MovesARunWhosePrefillWorkerDied) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto p1 = worker(wire::Role::kPrefill, 1);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto answer = post();
  ASSERT_TRUE(p0->next<wire::Prefill>());
  p0->send(wire::Goodbye{p0->id()});
  const auto again = p1->next<wire::Prefill>();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->body.key.attempt, 1);
  EXPECT_TRUE(again->body.choices[0].output.empty());
  EXPECT_EQ(d0->next<wire::Cancel>()->attempt, 0);
}

TEST_F(RouterLoopTest, GivesATypedErrorWhenNobodyIsLeft) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto answer = post();
  ASSERT_TRUE(p0->next<wire::Prefill>());
  p0->send(wire::Goodbye{p0->id()});
  ASSERT_TRUE(answer->wait_done());
  EXPECT_EQ(answer->status(), 503);
  EXPECT_EQ(json(answer->body()).at("error").at("message"), "prefill worker p0 is gone (left)");
}

TEST_F(RouterLoopTest, GivesUpAfterSixAttempts) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto answer = post();
  for (int attempt = 0; attempt < 6; ++attempt) {
    const auto prefill = p0->next<wire::Prefill>();
    ASSERT_TRUE(prefill);
    EXPECT_EQ(prefill->body.key.attempt, attempt);
    p0->fail(prefill->body.key, StatusCode::kWorkerLost, "decode worker d0 is lost");
  }
  ASSERT_TRUE(answer->wait_done());
  EXPECT_EQ(answer->status(), 503);
  EXPECT_EQ(json(answer->body()).at("error").at("type"), "worker_lost_error");
  EXPECT_TRUE(answer->headers().contains("Retry-After"));
}

TEST_F(RouterLoopTest, PassesOnAFailureThatARetryWouldRepeat) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto answer = post();
  const RunKey key = p0->next<wire::Prefill>()->body.key;
  p0->fail({key.request, 7, 0}, StatusCode::kInternal, "of another attempt");
  p0->fail(key, StatusCode::kResourceExhausted, "the pool of d0 is full");
  ASSERT_TRUE(answer->wait_done());
  EXPECT_EQ(answer->status(), 429);
  EXPECT_EQ(answer->headers().get("Retry-After"), "3");
  EXPECT_EQ(json(answer->body()).at("error").at("message"), "the pool of d0 is full");
}

TEST_F(RouterLoopTest, FollowsALegChangeAndIgnoresTheOldLeg) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto d1 = worker(wire::Role::kDecode, 1);
  const auto answer = post();
  RunKey key = p0->next<wire::Prefill>()->body.key;
  const RunKey old_leg = key;
  key.leg = 1;
  p0->send(wire::LegChanged{key, p0->id(), "d0 denied"});
  p0->tokens(key, 0, {10});
  d1->tokens(key, 0, {10, 11});
  EXPECT_TRUE(eventually(
      [&] { return registry_.counter(metrics::MetricId::kGenerationTokens).value() == 2; }));
  d0->tokens(old_leg, 1, {77});
  EXPECT_EQ(d0->next<wire::Cancel>()->reason, "superseded");
  d0->send(wire::Goodbye{d0->id()});  // it no longer matters
  d1->tokens(key, 2, {12}, FinishReason::kLength);
  ASSERT_TRUE(answer->wait_done());
  EXPECT_EQ(text(*answer), decoded({10, 11, 12}));
}

TEST_F(RouterLoopTest, EndsAChoiceWhoseLastTokenIsOnlyRepeated) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto answer = post();
  const RunKey key = p0->next<wire::Prefill>()->body.key;
  p0->tokens(key, 0, {10});
  d0->tokens(key, 0, {10}, FinishReason::kLength);
  ASSERT_TRUE(answer->wait_done());
  EXPECT_EQ(text(*answer), decoded({10}));
  EXPECT_EQ(json(answer->body()).at("choices").at(0).at("finish_reason"), "length");
}

TEST_F(RouterLoopTest, RestartsARunThatSkippedATokenInsteadOfHidingIt) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto answer = post();
  const RunKey key = p0->next<wire::Prefill>()->body.key;
  p0->tokens(key, 0, {10});
  p0->tokens(key, 2, {12});
  const auto again = p0->next<wire::Prefill>();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->body.choices[0].output, std::vector<TokenId>{10});
}

TEST_F(RouterLoopTest, SendsARepeatedPromptWhereItWasJustComputed) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto p1 = worker(wire::Role::kPrefill, 1);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto busy = post();  // keeps p0 occupied, so that the prompt goes to p1
  const RunKey key = p0->next<wire::Prefill>()->body.key;
  const auto first = post(prompt_of(70));
  p1->tokens(p1->next<wire::Prefill>()->body.key, 0, {10}, FinishReason::kLength);
  ASSERT_TRUE(first->wait_done());
  p0->tokens(key, 0, {10}, FinishReason::kLength);
  ASSERT_TRUE(busy->wait_done());
  const auto second = post(prompt_of(70));
  EXPECT_TRUE(p1->next<wire::Prefill>());
}

TEST_F(RouterLoopTest, IgnoresMessagesThatMakeNoSense) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto answer = post();
  const RunKey key = p0->next<wire::Prefill>()->body.key;
  p0->tokens(key, 0, {10}, FinishReason::kNone, 9);  // no such choice
  p0->tokens({RequestId{{1, 1}}, 0, 0}, 0, {10});    // no such request
  p0->tokens({key.request, 5, 0}, 0, {66});          // no such attempt
  p0->send(wire::LegChanged{{key.request, 0, 40}, p0->id(), "no such leg"});
  p0->send(wire::Grant{});
  p0->tokens(key, 0, {10}, FinishReason::kLength);
  ASSERT_TRUE(answer->wait_done());
  EXPECT_EQ(text(*answer), decoded({10}));
}

TEST_F(RouterLoopTest, RefusesAWorkerOfAnotherModel) {
  start();
  const auto d0 = worker(wire::Role::kDecode, 0);
  FakeWorker p0(context_, address_, worker_info(wire::Role::kPrefill, 0));
  p0.info().model_hash = {9, 9};
  EXPECT_TRUE(p0.join().starts_with("refused: its model ("));
}

TEST_F(RouterLoopTest, AsksAnUnknownWorkerToRegister) {
  start();
  FakeWorker d0(context_, address_, worker_info(wire::Role::kDecode, 0));
  wire::Heartbeat heartbeat;
  heartbeat.incarnation = d0.id();
  d0.send(heartbeat);
  const auto welcome = d0.next<wire::Welcome>();
  ASSERT_TRUE(welcome);
  EXPECT_FALSE(welcome->accepted);
  EXPECT_EQ(d0.join(), "");
}

TEST_F(RouterLoopTest, LosesAWorkerThatFallsSilent) {
  config_.router.worker_timeout = 150ms;
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto answer = post();
  ASSERT_TRUE(answer->wait_done());
  EXPECT_EQ(answer->status(), 503);
  EXPECT_TRUE(eventually([&] { return !loop_->health().ready; }));
}

TEST_F(RouterLoopTest, IsReadyWhenBothRolesAreThere) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  EXPECT_FALSE(loop_->health().ready);
  const auto d0 = worker(wire::Role::kDecode, 0);
  EXPECT_TRUE(eventually([&] { return loop_->health().ready.load(); }));
  EXPECT_EQ(loop_->health().max_context, 512);
}

TEST_F(RouterLoopTest, EndsARequestThatTakesTooLong) {
  config_.router.request_timeout = 100ms;
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto answer = post();
  ASSERT_TRUE(answer->wait_done());
  EXPECT_EQ(answer->status(), 504);
  EXPECT_TRUE(p0->next<wire::Cancel>());
}

TEST_F(RouterLoopTest, TellsItsStatus) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  wire::Heartbeat heartbeat;
  heartbeat.incarnation = p0->id();
  heartbeat.links = {{"d0", "ucx-posix"}};
  heartbeat.blocks_total = 64;
  heartbeat.running = 3;
  p0->send(heartbeat);
  boost::json::value status;
  EXPECT_TRUE(eventually([&] {
    const auto responder = std::make_shared<FakeResponder>();
    EXPECT_TRUE(loop_->post(StatusAsked{{{"x-request-id", "r"}}, responder}));
    EXPECT_TRUE(responder->wait_done());
    EXPECT_EQ(responder->headers().get("x-request-id"), "r");
    status = json(responder->body());
    return !status.at("links").as_array().empty();
  }));
  EXPECT_EQ(status.at("links").at(0), json(R"({"from":"p0","to":"d0","transport":"ucx-posix"})"));
  ASSERT_EQ(status.at("workers").as_array().size(), 2u);
  for (const boost::json::value& worker : status.at("workers").as_array()) {
    for (const char* key : {"name", "role", "state", "blocks_total", "blocks_free", "running",
                            "waiting", "incarnation"}) {
      EXPECT_TRUE(worker.as_object().contains(key)) << key;
    }
  }
}

TEST_F(RouterLoopTest, DrainsRunningRequestsAndRefusesNewOnes) {
  config_.router.drain = 30s;
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto running = post();
  const RunKey key = p0->next<wire::Prefill>()->body.key;
  ask_to_stop();
  EXPECT_TRUE(eventually([&] { return loop_->health().draining.load(); }));
  const auto late = post();
  ASSERT_TRUE(late->wait_done());
  EXPECT_EQ(late->status(), 503);
  EXPECT_EQ(json(late->body()).at("error").at("message"), "the router is shutting down");
  EXPECT_FALSE(running->done());
  p0->tokens(key, 0, {10}, FinishReason::kStop);
  thread_.join();
  EXPECT_EQ(running->status(), 200);
  EXPECT_EQ(drains_, 1);
  EXPECT_FALSE(loop_->post(ClientGone{1}));  // nobody would take it
  EXPECT_TRUE(p0->next<wire::Goodbye>());
  EXPECT_TRUE(d0->next<wire::Goodbye>());
}

TEST_F(RouterLoopTest, EndsWhatIsLeftAtTheDrainLimit) {
  start();
  const auto p0 = worker(wire::Role::kPrefill, 0);
  const auto d0 = worker(wire::Role::kDecode, 0);
  const auto running = post(R"(,"stream":true)");
  p0->tokens(p0->next<wire::Prefill>()->body.key, 0, {10});
  ASSERT_TRUE(running->wait_written(1));
  ask_to_stop();
  thread_.join();
  const std::vector<std::string> got = events(running->body());
  ASSERT_GE(got.size(), 3u);
  EXPECT_EQ(json(got[got.size() - 2]).at("error").at("message"), "the router is shutting down");
  EXPECT_TRUE(p0->next<wire::Cancel>());
}

}  // namespace
}  // namespace baton::router
