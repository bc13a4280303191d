// The default model: against recorded outputs of transformers in float32, and equal bits on weights
// and shapes that are not random.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "common/engine/engine_test_support.h"

namespace baton::engine {
namespace {

struct RecordedStep {
  TokenId token = 0;
  double margin = 0;                            // between the two largest logits
  std::vector<std::pair<TokenId, double>> top;  // log-probabilities
};
struct RecordedPrompt {
  std::vector<TokenId> tokens;
  std::vector<RecordedStep> steps;
};

std::vector<RecordedPrompt> read_reference() {
  std::ifstream file(BATON_SOURCE_DIR "/tests/data/reference/smollm2_short.txt");
  std::vector<RecordedPrompt> prompts;
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::string word;
    in >> word;
    if (word == "prompt") {
      prompts.emplace_back();
      for (TokenId token = 0; in >> token;) {
        prompts.back().tokens.push_back(token);
      }
    } else {
      RecordedStep step;
      in >> step.token >> step.margin;
      for (std::pair<TokenId, double> entry; in >> entry.first >> entry.second;) {
        step.top.push_back(entry);
      }
      prompts.back().steps.push_back(std::move(step));
    }
  }
  return prompts;
}

double log_sum_exp(std::span<const float> logits) {
  const double max = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp(logit - max);
  }
  return max + std::log(sum);
}

EngineSetup real_setup(device::Isa isa) {
  return {.model = kRealModel, .isa = isa, .segments = 4, .blocks = 64, .max_batch_tokens = 1024};
}

TEST(RealModelTest, AgreesWithTransformersInFloat32) {
  const std::vector<RecordedPrompt> prompts = read_reference();
  ASSERT_EQ(prompts.size(), 9u);
  EngineSetup setup = real_setup(device::available_isas().back());
  setup.threads = 2;
  const std::unique_ptr<Engine> engine = make_engine(setup);
  int steps = 0;
  int agree = 0;
  double worst_margin = 0;
  double worst_logprob = 0;
  for (const RecordedPrompt& prompt : prompts) {
    // Fed with the recorded tokens, so that one difference does not make all later ones.
    std::vector<TokenId> tokens = prompt.tokens;
    for (const RecordedStep& step : prompt.steps) {
      tokens.push_back(step.token);
    }
    tokens.pop_back();
    auto plan = std::make_unique<BatchPlan>();
    SequencePlan sequence;
    sequence.tokens = tokens;
    sequence.blocks = {5, 2};
    sequence.logits = LogitsWanted::kAll;
    sequence.return_logits = true;
    plan->zero_values = sequence.blocks;
    plan->sequences.push_back(std::move(sequence));
    const StepOutput output = engine->run(std::move(plan));
    const auto vocab = static_cast<size_t>(engine->description().vocab);
    for (size_t i = 0; i < prompt.steps.size(); ++i) {
      const RecordedStep& step = prompt.steps[i];
      const auto row = std::span(output.sequences[0].logits)
                           .subspan((prompt.tokens.size() - 1 + i) * vocab, vocab);
      const auto best = static_cast<TokenId>(std::ranges::max_element(row) - row.begin());
      ++steps;
      agree += best == step.token ? 1 : 0;
      worst_margin = std::max(worst_margin, best == step.token ? 0 : step.margin);
      const double total = log_sum_exp(row);
      for (const auto& [id, logprob] : step.top) {
        worst_logprob =
            std::max(worst_logprob, std::abs(row[static_cast<size_t>(id)] - total - logprob));
      }
    }
  }
  std::printf("top-1 %d of %d, worst margin %.3f, worst log-probability off by %.3f\n", agree,
              steps, worst_margin, worst_logprob);
  // The gate of `baton bench quality` is 0.98 of all 1,216 steps; these are 216 of them.
  EXPECT_GE(agree, steps * 97 / 100);
  EXPECT_LE(worst_margin, 0.15);
  EXPECT_LE(worst_logprob, 0.5);
}

TEST(RealModelTest, GivesTheSameBitsHoweverItIsComputed) {
  Request request;
  request.prompt = random_tokens(11, 530, 49152);  // more than a split of attention
  request.outputs = 4;
  Trace expected;
  {
    const std::unique_ptr<Engine> engine = make_engine(real_setup(device::available_isas().back()));
    expected = Driver(*engine).run(request);
    Request chunked = request;
    chunked.chunk = 17;
    EXPECT_TRUE(same_bits(expected, Driver(*engine, 2).run(chunked)));
    chunked.chunk = 512;
    chunked.drop_every = 3;
    EXPECT_TRUE(same_bits(expected, Driver(*engine, 2).run(chunked)));
    Driver warm(*engine, 3, true);
    EXPECT_TRUE(same_bits(expected, warm.run(request)));
    EXPECT_TRUE(same_bits(expected, warm.run(request)));

    std::vector<Request> crowd(32);
    for (int i = 0; i < 32; ++i) {
      crowd[static_cast<size_t>(i)].prompt =
          random_tokens(50 + static_cast<uint64_t>(i), 1 + i % 7, 49152);
      crowd[static_cast<size_t>(i)].outputs = 3;
    }
    crowd[13] = request;
    EXPECT_TRUE(same_bits(expected, Driver(*engine, 4).run(crowd)[13]));
  }
  for (const int ranks : {2, 4}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    EngineSetup setup = real_setup(device::available_isas().back());
    setup.ranks = ranks;
    setup.threads = ranks == 2 ? 3 : 1;  // more than heads: splits are shared out
    setup.pool = ranks == 2 ? EngineOptions::Pool::kPrefill : EngineOptions::Pool::kDecode;
    const std::unique_ptr<Engine> engine = make_engine(setup);
    EXPECT_TRUE(same_bits(expected, Driver(*engine).run(request)));
  }
}

TEST(RealModelTest, GivesTheSameBitsAtEveryLevel) {
  // Plain C++ is slow: a short prompt.
  Request request;
  request.prompt = random_tokens(12, 5, 49152);
  request.outputs = 2;
  Trace expected;
  for (const device::Isa isa : device::available_isas()) {
    SCOPED_TRACE(device::isa_name(isa));
    EngineSetup setup = real_setup(isa);
    setup.threads = 2;
    const std::unique_ptr<Engine> engine = make_engine(setup);
    const Trace trace = Driver(*engine).run(request);
    if (isa == device::Isa::kScalar) {
      expected = trace;
    }
    EXPECT_TRUE(same_bits(expected, trace));
  }
}

TEST(RealModelTest, RanksHoldTheirShareOfTheWeights) {
  const device::Isa isa = device::available_isas().back();
  const size_t whole = make_engine(real_setup(isa))->weight_bytes(0);
  std::printf("T=1 rank 0: %.1f MB\n", static_cast<double>(whole) / 1e6);
  for (const int ranks : {2, 4}) {
    EngineSetup setup = real_setup(isa);
    setup.ranks = ranks;
    const std::unique_ptr<Engine> engine = make_engine(setup);
    for (int rank = 0; rank < ranks; ++rank) {
      const size_t bytes = engine->weight_bytes(rank);
      const size_t replicated = engine->replicated_weight_bytes(rank);
      std::printf("T=%d rank %d: %.1f MB, of these %.1f MB on other ranks too\n", ranks, rank,
                  static_cast<double>(bytes) / 1e6, static_cast<double>(replicated) / 1e6);
      // Nine heads do not divide evenly; what is not replicated still sums up to one model.
      EXPECT_LE(static_cast<double>(bytes - replicated), static_cast<double>(whole) / ranks * 1.25);
    }
  }
}

}  // namespace
}  // namespace baton::engine
