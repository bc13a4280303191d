#include "common/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <future>
#include <mutex>
#include <set>
#include <utility>

#include "common/engine/engine_test_support.h"

namespace baton::engine {
namespace {

EngineSetup fastest() { return {.isa = device::available_isas().back()}; }

// --- create ------------------------------------------------------------------------------------

StatusCode refusal(const EngineSetup& setup, const std::string& word) {
  const Result<std::unique_ptr<Engine>> engine = Engine::create(options_of(setup));
  if (engine.ok()) {
    return StatusCode::kOk;
  }
  EXPECT_NE(engine.status().message().find(word), std::string::npos) << engine.status().to_string();
  return engine.status().code();
}

TEST(EngineTest, RefusesWhatItCannotServe) {
  EXPECT_EQ(refusal({.model = "tests/data/models/none.gguf"}, "none.gguf"), StatusCode::kNotFound);
  EXPECT_EQ(refusal({.model = "tests/data/models/README.md"}, "README.md"),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(refusal({.ranks = 2, .segments = 3}, "3"), StatusCode::kInvalidArgument);
  EXPECT_EQ(refusal({.block_tokens = 48}, "48"), StatusCode::kInvalidArgument);
  EXPECT_EQ(refusal({.blocks = 0}, "0 bytes"), StatusCode::kInvalidArgument);
  EXPECT_EQ(refusal({.blocks = 2'000'000'000}, "2000000000"), StatusCode::kResourceExhausted);
  EXPECT_EQ(refusal({.max_batch_tokens = 0}, "max_batch_tokens"), StatusCode::kInvalidArgument);
  EXPECT_EQ(refusal({.max_context = 513}, "513"), StatusCode::kInvalidArgument);
  EXPECT_EQ(refusal({.max_context = -1}, "-1"), StatusCode::kInvalidArgument);
}

TEST(EngineTest, DescribesWhatItServes) {
  EngineSetup setup = fastest();
  setup.max_context = 100;
  setup.segments = 4;
  setup.ranks = 2;
  const std::unique_ptr<Engine> engine = make_engine(setup);
  EXPECT_EQ(engine->description().max_context, 100);
  EXPECT_EQ(engine->description().vocab, 512);
  EXPECT_EQ(engine->numerics_id(), "inv-1:split512:4");
  EXPECT_EQ(engine->ranks(), 2);
  EXPECT_FALSE(engine->model_hash().is_zero());
  EXPECT_EQ(engine->pool(1).blocks(), setup.blocks);
  EXPECT_EQ(engine->pool(1).heads(), engine->segments().rank_kv_heads(1));
  EXPECT_GT(engine->weight_bytes(0), engine->replicated_weight_bytes(0));
}

// --- steps -------------------------------------------------------------------------------------

SequencePlan sequence_of(uint64_t id, std::vector<TokenId> tokens, std::vector<BlockId> blocks) {
  SequencePlan sequence;
  sequence.id = SequenceId{id};
  sequence.tokens = std::move(tokens);
  sequence.blocks = std::move(blocks);
  sequence.logits = LogitsWanted::kLast;
  sequence.return_logits = true;
  return sequence;
}

TEST(EngineTest, AnswersInTheOrderOfThePlanAndHandsItBack) {
  const std::unique_ptr<Engine> engine = make_engine(fastest());
  auto plan = std::make_unique<BatchPlan>();
  plan->zero_values = {0, 1, 2};
  plan->sequences.push_back(sequence_of(9, {1, 2, 3}, {2}));
  plan->sequences.push_back(sequence_of(4, {5}, {0}));
  plan->sequences.back().logits = LogitsWanted::kNone;
  plan->sequences.push_back(sequence_of(7, {6, 7}, {1}));
  plan->sequences.back().logits = LogitsWanted::kAll;
  EXPECT_EQ(plan->total_tokens(), 6);
  const BatchPlan* address = plan.get();
  const StepOutput output = engine->run(std::move(plan));
  EXPECT_EQ(output.plan.get(), address);
  ASSERT_EQ(output.sequences.size(), 3u);
  EXPECT_EQ(output.sequences[0].id, SequenceId{9});
  EXPECT_EQ(output.sequences[0].logits.size(), 512u);
  EXPECT_EQ(output.sequences[1].id, SequenceId{4});
  EXPECT_TRUE(output.sequences[1].logits.empty());
  EXPECT_EQ(output.sequences[2].logits.size(), 1024u);
  EXPECT_GT(output.seconds, 0);
  EXPECT_GT(output.first_layer_seconds, 0);
  EXPECT_LE(output.first_layer_seconds, output.seconds);
  EXPECT_GT(output.attention_seconds, 0);
  EXPECT_LE(output.attention_seconds, output.seconds);
}

TEST(EngineTest, AllRowsEqualTheRowsOfSingleSteps) {
  const std::unique_ptr<Engine> engine = make_engine(fastest());
  const std::vector<TokenId> tokens = random_tokens(1, 300, 512);
  std::vector<BlockId> blocks;
  for (BlockId id = 0; id < 10; ++id) {
    blocks.push_back(id);
  }
  auto plan = std::make_unique<BatchPlan>();
  plan->zero_values = blocks;
  plan->sequences.push_back(sequence_of(1, tokens, blocks));
  plan->sequences.back().logits = LogitsWanted::kAll;
  const StepOutput all = engine->run(std::move(plan));
  ASSERT_EQ(all.sequences[0].logits.size(), size_t{300} * 512);
  for (int position = 0; position < 300; ++position) {
    plan = std::make_unique<BatchPlan>();
    if (position == 0) {
      plan->zero_values = blocks;
    }
    plan->sequences.push_back(sequence_of(1, {tokens[static_cast<size_t>(position)]}, blocks));
    plan->sequences.back().first_position = position;
    const StepOutput one = engine->run(std::move(plan));
    ASSERT_TRUE(std::equal(one.sequences[0].logits.begin(), one.sequences[0].logits.end(),
                           all.sequences[0].logits.begin() + position * 512))
        << position;
  }
}

TEST(EngineTest, ScoresOfChunksEqualThoseOfTheirLogits) {
  const std::unique_ptr<Engine> engine = make_engine(fastest());
  const std::vector<TokenId> tokens = random_tokens(3, 100, 512);
  const std::vector<BlockId> blocks = {0, 1, 2, 3};
  sampling::SamplingParams greedy;
  greedy.temperature = 0;
  sampling::SequenceSampler sampler(greedy, tokens, {}, 0, 512);
  sampling::Scratch scratch;
  for (const auto& [begin, end] : std::vector<std::pair<int, int>>{{0, 37}, {37, 38}, {38, 100}}) {
    auto plan = std::make_unique<BatchPlan>();
    if (begin == 0) {
      plan->zero_values = blocks;
    }
    plan->sequences.push_back(
        sequence_of(1, {tokens.begin() + begin, tokens.begin() + end}, blocks));
    SequencePlan& entry = plan->sequences.back();
    entry.first_position = begin;
    entry.logits = LogitsWanted::kAll;
    entry.score.assign(tokens.begin() + begin + 1, tokens.begin() + std::min(end + 1, 100));
    entry.score_top = 3;
    if (end == 100) {
      entry.samples.push_back({&sampler});
    }
    const StepOutput output = engine->run(std::move(plan));
    const SequenceOutput& got = output.sequences[0];
    ASSERT_EQ(got.scores.size(), static_cast<size_t>(std::min(end, 99) - begin));
    for (size_t i = 0; i < got.scores.size(); ++i) {
      const std::span<const float> row(got.logits.data() + i * 512, 512);
      const TokenId next = tokens[static_cast<size_t>(begin) + i + 1];
      EXPECT_EQ(got.scores[i], *sampling::token_logprobs(row, next, 3, scratch))
          << begin << " " << i;
    }
    if (end == 100) {
      const std::vector<float> last(got.logits.end() - 512, got.logits.end());
      EXPECT_EQ(got.samples[0].id, arg_max(last));
    }
  }
}

TEST(EngineTest, StepsMayBeSubmittedFromDone) {
  const std::unique_ptr<Engine> engine = make_engine(fastest());
  std::promise<void> finished;
  int steps = 0;
  const std::function<void(StepOutput)> next = [&](StepOutput output) {
    if (++steps == 20) {
      finished.set_value();
      return;
    }
    engine->submit(std::move(output.plan), next);
  };
  auto plan = std::make_unique<BatchPlan>();
  plan->sequences.push_back(sequence_of(1, {1, 2, 3}, {0}));
  plan->zero_values = {0};
  engine->submit(std::move(plan), next);
  ASSERT_EQ(finished.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(steps, 20);
}

TEST(EngineTest, TellsWhenKvOfEachLayerIsWritten) {
  EngineSetup setup = fastest();
  setup.segments = 2;
  setup.ranks = 2;
  setup.threads = 2;
  const std::unique_ptr<Engine> engine = make_engine(setup);
  const kv_cache::KvPool& first = engine->pool(0);
  engine->pool(0).fill(0xFFFF);
  engine->pool(1).fill(0xFFFF);
  const int layers = engine->description().layers;
  std::mutex mutex;
  std::vector<std::pair<int, int>> calls;
  bool stored = true;
  engine->set_kv_written([&](int rank, int layer) {
    const std::lock_guard lock(mutex);
    calls.emplace_back(rank, layer);
    // The V of position 0, first head, is no longer what the memory was filled with.
    if (rank == 0) {
      const auto* v = reinterpret_cast<const uint16_t*>(first.group(layer, 3, true, 0, 0));
      stored = stored && v[0] != 0xFFFF;
    }
  });
  const uint64_t before = engine->progress();
  auto plan = std::make_unique<BatchPlan>();
  plan->zero_values = {3};
  plan->sequences.push_back(sequence_of(1, {1, 2}, {3}));
  engine->run(std::move(plan));
  EXPECT_EQ(engine->progress() - before, static_cast<uint64_t>(layers));
  EXPECT_TRUE(stored);
  ASSERT_EQ(calls.size(), static_cast<size_t>(2 * layers));
  for (int rank = 0; rank < 2; ++rank) {
    int expected = 0;
    for (const auto& [r, layer] : calls) {
      if (r == rank) {
        EXPECT_EQ(layer, expected++);
      }
    }
  }
}

TEST(EngineTest, CopiesBlocksBeforeItZeroesAndComputes) {
  EngineSetup setup = fastest();
  setup.segments = 2;
  setup.ranks = 2;
  const std::unique_ptr<Engine> engine = make_engine(setup);
  auto plan = std::make_unique<BatchPlan>();
  plan->zero_values = {0};
  plan->sequences.push_back(sequence_of(1, {1, 2, 3, 4, 5}, {0}));
  plan->sequences.push_back(sequence_of(2, {1, 2, 3, 4, 5, 6}, {1}));
  plan->zero_values.push_back(1);
  const StepOutput expected = engine->run(std::move(plan));
  // Block 0 goes on as block 2, and at once belongs to another sequence.
  plan = std::make_unique<BatchPlan>();
  plan->copies = {{.from = 0, .to = 2}};
  plan->zero_values = {0};
  plan->sequences.push_back(sequence_of(1, {6}, {2}));
  plan->sequences.back().first_position = 5;
  plan->sequences.push_back(sequence_of(3, {9, 9}, {0}));
  const StepOutput output = engine->run(std::move(plan));
  EXPECT_EQ(output.sequences[0].logits, expected.sequences[1].logits);
}

// --- sampling ----------------------------------------------------------------------------------

sampling::SequenceSampler sampler_for(float temperature, uint64_t seed, int choice) {
  sampling::SamplingParams params;
  params.temperature = temperature;
  params.seed = seed;
  params.logprobs = 2;
  return sampling::SequenceSampler(params, {}, {}, choice, 512);
}

TEST(EngineTest, SamplesEveryChoiceFromTheSameRow) {
  EngineSetup setup = fastest();
  setup.threads = 2;
  const std::unique_ptr<Engine> engine = make_engine(setup);
  std::vector<sampling::SequenceSampler> samplers;
  for (int choice = 0; choice < 8; ++choice) {
    samplers.push_back(sampler_for(choice == 0 ? 0.0F : 5.0F, 1, choice));
  }
  auto plan = std::make_unique<BatchPlan>();
  plan->zero_values = {0, 1};
  plan->sequences.push_back(sequence_of(1, {1, 2, 3}, {0}));
  for (sampling::SequenceSampler& sampler : samplers) {
    plan->sequences[0].samples.push_back({&sampler});
  }
  sampling::SequenceSampler alone = sampler_for(0.0F, 1, 0);
  plan->sequences.push_back(sequence_of(2, {1, 2, 3}, {1}));
  plan->sequences[1].samples.push_back({&alone});
  StepOutput output = engine->run(std::move(plan));
  const SequenceOutput& many = output.sequences[0];
  ASSERT_EQ(many.samples.size(), 8u);
  EXPECT_TRUE(many.error.ok());
  // Sampling overwrites rows, the copies that were asked for are of the raw logits.
  EXPECT_EQ(many.logits, output.sequences[1].logits);
  EXPECT_EQ(many.samples[0].id, arg_max(many.logits));
  EXPECT_EQ(output.sequences[1].samples[0].id, arg_max(many.logits));
  std::set<TokenId> ids;
  for (int choice = 0; choice < 8; ++choice) {
    sampling::SequenceSampler sampler = sampler_for(choice == 0 ? 0.0F : 5.0F, 1, choice);
    std::vector<float> row = many.logits;
    sampling::Scratch scratch;
    const sampling::Sampled expected = sampler.sample(row, scratch).value();
    EXPECT_EQ(many.samples[static_cast<size_t>(choice)].id, expected.id);
    EXPECT_EQ(many.samples[static_cast<size_t>(choice)].logprobs, expected.logprobs);
    EXPECT_EQ(samplers[static_cast<size_t>(choice)].output_count(), 1);
    ids.insert(expected.id);
  }
  EXPECT_GT(ids.size(), 2u);
}

TEST(EngineTest, ANanEndsItsOwnSequenceOnly) {
  const std::unique_ptr<Engine> engine = make_engine(fastest());
  engine->pool(0).fill(0xFFFF);
  sampling::SequenceSampler broken = sampler_for(0.0F, 1, 0);
  sampling::SequenceSampler healthy = sampler_for(0.0F, 1, 0);
  auto plan = std::make_unique<BatchPlan>();
  plan->zero_values = {1};
  // Claims a past that nobody wrote.
  plan->sequences.push_back(sequence_of(1, {1}, {0}));
  plan->sequences[0].first_position = 5;
  plan->sequences[0].samples.push_back({&broken});
  plan->sequences.push_back(sequence_of(2, {1, 2, 3}, {1}));
  plan->sequences[1].samples.push_back({&healthy});
  const StepOutput output = engine->run(std::move(plan));
  EXPECT_EQ(output.sequences[0].error.code(), StatusCode::kInternal);
  EXPECT_EQ(broken.output_count(), 0);
  EXPECT_TRUE(output.sequences[1].error.ok());
  EXPECT_EQ(output.sequences[1].samples[0].id, arg_max(output.sequences[1].logits));
}

using EngineDeathTest = ::testing::Test;
TEST(EngineDeathTest, ABrokenPlanAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [](const std::function<void(SequencePlan&)>& damage) {
    const std::unique_ptr<Engine> engine = make_engine({.max_batch_tokens = 64, .max_context = 70});
    auto plan = std::make_unique<BatchPlan>();
    plan->sequences.push_back(sequence_of(1, random_tokens(1, 40, 512), {0, 1, 2}));
    damage(plan->sequences[0]);
    engine->run(std::move(plan));
  };
  EXPECT_DEATH(run([](SequencePlan& s) { s.tokens[3] = 512; }), "vocabulary");
  EXPECT_DEATH(run([](SequencePlan& s) { s.tokens[3] = -1; }), "vocabulary");
  EXPECT_DEATH(run([](SequencePlan& s) { s.blocks = {0}; }), "block table");
  EXPECT_DEATH(run([](SequencePlan& s) { s.blocks[1] = 96; }), "block of the pool");
  EXPECT_DEATH(run([](SequencePlan& s) { s.first_position = 31; }), "context");
  EXPECT_DEATH(run([](SequencePlan& s) { s.tokens.resize(65); }), "max_batch_tokens");
}

TEST(FastArithmeticTest, PredictsNearlyWhatTheCanonicalOneDoes) {
  for (const device::Isa isa : device::available_isas()) {
    for (const EngineOptions::Pool pool :
         {EngineOptions::Pool::kPrefill, EngineOptions::Pool::kDecode}) {
      SCOPED_TRACE(device::isa_name(isa));
      EngineSetup setup = {.isa = isa, .pool = pool};
      setup.arithmetic = Arithmetic::kFast;
      const std::unique_ptr<Engine> engine = make_engine(setup);
      EXPECT_EQ(engine->numerics_id(), "fast-1:split512:1");
      const std::vector<TokenId> tokens = random_tokens(3, 70, engine->description().vocab);
      const double divergence = engine->divergence(tokens);
      EXPECT_LT(divergence, 0.05);  // random weights; garbage would be at several nats
      EXPECT_EQ(divergence > 0, kernels::has_fast_arithmetic(isa));
    }
  }
}

TEST(FastArithmeticTest, TakesWhatFitsThePool) {
  EngineSetup setup = {.isa = device::available_isas().back(), .blocks = 1};
  setup.arithmetic = Arithmetic::kFast;
  const std::unique_ptr<Engine> engine = make_engine(setup);
  EXPECT_LT(engine->divergence(random_tokens(3, 100, engine->description().vocab)), 0.05);
}

TEST(FastArithmeticTest, ACanonicalEngineIsItsOwnMeasure) {
  const std::unique_ptr<Engine> engine = make_engine({});
  EXPECT_EQ(engine->numerics_id(), "inv-1:split512:1");
  EXPECT_EQ(engine->divergence(random_tokens(3, 10, engine->description().vocab)), 0);
}

}  // namespace
}  // namespace baton::engine
