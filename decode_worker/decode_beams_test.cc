// Beam searches of a decode worker against ones that the test makes with an engine of its own: each
// beam alone, all of it in one step.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/worker/run_convert.h"
#include "decode_worker/decode_fixture.h"

namespace baton::decode_worker {
namespace {

using testing::HasSubstr;

struct Beam {
  std::vector<TokenId> output;
  double score = 0;
};

class DecodeBeamsTest : public DecodeFixture {
 protected:
  wire::RunBody body(uint64_t request, int prompt, int max_tokens, size_t width) {
    wire::RunBody made = random_body(request, prompt, max_tokens, router_.incarnation(), width);
    made.sampling.beam_width = static_cast<uint32_t>(width);
    made.sampling.logprobs = 0;
    made.sampling.ignore_eos = true;
    return made;
  }
  bool all_finished(const std::vector<wire::RunBody>& bodies) {
    return until([&] { return std::ranges::all_of(bodies, [&](auto& b) { return finished(b); }); });
  }

  std::vector<std::pair<TokenId, float>> row(const wire::RunBody& body,
                                             const std::vector<TokenId>& output) {
    const model::ModelDescription& model = oracle_.engine().description();
    std::vector<TokenId> tokens = body.prompt;
    tokens.insert(tokens.end(), output.begin(), output.end());
    const auto blocks = worker::block_pools(oracle_.engine(), false);
    sampling::SequenceSampler sampler =
        worker::make_sampler(body, 0, model.vocab, model.max_context, nullptr);
    worker::Sequence sequence(SequenceId{1}, std::move(tokens));
    auto plan = std::make_unique<engine::BatchPlan>();
    sequence.feed(sequence.pending(), *blocks, *plan).value()->samples.push_back({&sampler});
    const engine::StepOutput step = oracle_.engine().run(std::move(plan));
    return worker::wire_logprob(*step.sequences[0].samples[0].logprobs).top;
  }
  // Without a shortcut; everything is kept.
  std::vector<Beam> by_definition(const wire::RunBody& body) {
    const wire::SamplingSpec& spec = body.sampling;
    const auto final_score = [&](double sum, size_t output) {
      return sum / std::pow(static_cast<double>(body.prompt.size() + output), spec.length_penalty);
    };
    const auto best_first = [](const Beam& a, const Beam& b) { return a.score > b.score; };
    std::vector<Beam> open = {{}};
    std::vector<Beam> done;
    for (int step = 0; step < spec.max_tokens; ++step) {
      std::vector<Beam> longer;
      for (const Beam& beam : open) {
        for (const auto& [id, logprob] : row(body, beam.output)) {
          Beam one = {beam.output, beam.score + static_cast<double>(logprob)};
          one.output.push_back(id);
          if (std::ranges::count(spec.stop_token_ids, id) > 0) {
            done.push_back({one.output, final_score(one.score, beam.output.size())});
          } else {
            longer.push_back(one);
          }
        }
      }
      std::stable_sort(longer.begin(), longer.end(), best_first);
      longer.resize(std::min<size_t>(longer.size(), spec.beam_width));
      open = longer;
    }
    for (const Beam& beam : open) {
      done.push_back({beam.output, final_score(beam.score, beam.output.size())});
    }
    std::stable_sort(done.begin(), done.end(), best_first);
    done.resize(spec.beam_width);
    return done;
  }
  // Token by token and, by the log-probabilities told, score by score.
  void expect_right(const wire::RunBody& body) {
    const std::vector<Beam> expected = by_definition(body);
    for (uint32_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(router_.output(body.key.request, i), expected[i].output) << "beam " << i;
      const auto told = std::ranges::find_if(router_.tokens, [&](const wire::Tokens& tokens) {
        return tokens.key.request == body.key.request && tokens.choice == i && !tokens.ids.empty();
      });
      ASSERT_NE(told, router_.tokens.end());
      ASSERT_EQ(told->logprobs.size(), told->ids.size());
      double sum = 0;
      for (const wire::TokenLogprob& logprob : told->logprobs) {
        sum += static_cast<double>(logprob.logprob);
      }
      const bool ended = told->finish == wire::FinishReason::kStop;
      const auto length =
          static_cast<double>(body.prompt.size() + told->ids.size() - (ended ? 1 : 0));
      EXPECT_NEAR(sum / std::pow(length, body.sampling.length_penalty), expected[i].score, 1e-4);
    }
  }
};

TEST_F(DecodeBeamsTest, FindsWhatASearchWithoutSchedulerFinds) {
  start();
  std::vector<wire::RunBody> requests;
  for (const size_t width : {1u, 2u, 4u, 7u}) {
    // Ends in the middle of a block, at its end, and beyond.
    for (const int prompt : {1, 30, 64}) {
      requests.push_back(body(requests.size() + 1, prompt, 12, width));
      requests.back().sampling.length_penalty = 1.0 - static_cast<double>(requests.size() % 3);
    }
  }
  for (wire::RunBody& request : requests) {
    // Tokens of the first step, so that some outputs end.
    request.sampling.stop_token_ids = {row(request, {})[1].first, 17, 99};
    run(request);
  }
  ASSERT_TRUE(all_finished(requests));
  for (const wire::RunBody& request : requests) {
    SCOPED_TRACE(request.key.request.value.lo);
    expect_right(request);
  }
  EXPECT_EQ(host_->metric(metrics::MetricId::kPreemptions), 0);
  expect_all_free();
}

TEST_F(DecodeBeamsTest, TellsNothingButTimesBeforeTheEnd) {
  start();
  const wire::RunBody request = body(1, 40, 20, 3);
  run(request);
  ASSERT_TRUE(all_finished({request}));
  ASSERT_EQ(router_.tokens.size(), 4u);
  EXPECT_TRUE(router_.tokens[0].ids.empty());
  ASSERT_TRUE(router_.tokens[0].timings);
  EXPECT_EQ(router_.tokens[0].timings->prompt_tokens_computed, 40u);
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(router_.tokens[i].ids.size(), 20u);
    EXPECT_EQ(router_.tokens[i].finish, wire::FinishReason::kLength);
  }
  EXPECT_EQ(host_->metric(metrics::MetricId::kPromptTokensComputed), 40)
      << "nothing of the prompt is computed for each beam";
}

TEST_F(DecodeBeamsTest, PreemptedBeamsAndStreamsBesideThemLoseNothing) {
  HostSetup setup;
  setup.blocks = 12;
  start(setup);
  std::vector<wire::RunBody> searches;
  for (uint64_t n = 1; n <= 3; ++n) {
    searches.push_back(body(n, 60, 50, 3));
    run(searches.back());
  }
  const wire::RunBody stream = worker::random_body(9, 50, 60, router_.incarnation());
  run(stream);
  ASSERT_TRUE(all_finished({searches[0], searches[1], searches[2], stream}));
  EXPECT_GT(host_->metric(metrics::MetricId::kPreemptions), 0);
  for (const wire::RunBody& request : searches) {
    SCOPED_TRACE(request.key.request.value.lo);
    expect_right(request);
  }
  EXPECT_EQ(router_.output(stream.key.request), oracle_.output(stream));
  expect_all_free();
}

// Its beams do not fit together: they are computed one after the other.
TEST_F(DecodeBeamsTest, APoolForOneBeamServesThemAll) {
  HostSetup setup;
  setup.blocks = 5;
  start(setup);
  const wire::RunBody request = body(1, 20, 100, 4);  // 119 tokens with KV: 4 blocks a beam
  run(request);
  ASSERT_TRUE(all_finished({request}));
  EXPECT_GT(host_->metric(metrics::MetricId::kPreemptions), 0);
  expect_right(request);
  expect_all_free();
}

TEST_F(DecodeBeamsTest, OneThatOutgrowsThePoolFails) {
  HostSetup setup;
  setup.blocks = 4;
  start(setup);
  const wire::RunBody request = body(1, 20, 300, 2);
  run(request);
  ASSERT_TRUE(until([&] { return router_.failed.size() == 1; }));
  EXPECT_EQ(router_.failed[0].code, StatusCode::kResourceExhausted);
  EXPECT_THAT(router_.failed[0].message, HasSubstr("outgrown the KV pool"));
  expect_all_free();
}

TEST_F(DecodeBeamsTest, ACancelledSearchLeavesNothing) {
  start();
  for (uint64_t n = 1; n <= 6; ++n) {
    const wire::RunBody request = body(n, 90, 100, 4);
    run(request);
    const int steps = host_->steps;
    // In every state: while it waits, computes its prompt, and searches.
    ASSERT_TRUE(until([&] { return host_->steps >= steps + static_cast<int>(n); }));
    router_.send("d0", wire::Cancel{request.key.request, request.key.attempt, "client"});
    expect_all_free();
    EXPECT_FALSE(finished(request));
  }
}

TEST_F(DecodeBeamsTest, RefusesASearchThatIsNone) {
  start();
  wire::RunBody wide = body(1, 20, 5, 33);
  wire::RunBody uneven = body(2, 20, 5, 3);
  uneven.sampling.beam_width = 2;
  wire::RunBody begun = body(3, 20, 5, 2);
  begun.choices[0].output = {5};
  wire::RunBody penalty = body(4, 20, 5, 2);
  penalty.sampling.length_penalty = std::nan("");
  wire::RunBody tokens = body(5, 20, 5, 2);
  tokens.sampling.token_count = 3;
  for (const wire::RunBody& request : {wide, uneven, begun, penalty, tokens}) {
    run(request);
  }
  ASSERT_TRUE(until([&] { return router_.failed.size() == 5; }));
  for (const wire::RunFailed& failed : router_.failed) {
    EXPECT_EQ(failed.code, StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace baton::decode_worker
