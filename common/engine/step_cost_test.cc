#include "common/engine/step_cost.h"

#include <gtest/gtest.h>

#include "common/engine/engine_test_support.h"

namespace baton::engine {
namespace {

TEST(StepCostTest, CountsFlopsAsTheFormulasSay) {
  model::ModelDescription model;
  model.hidden = 10;
  model.heads = 4;
  model.kv_heads = 2;
  model.head_dim = 5;
  model.ffn = 30;
  model.layers = 3;
  model.vocab = 100;
  // A layer: 10 * (20 + 2 * 10) + 20 * 10 + 3 * 10 * 30 = 1500 weights; the head: 1000.
  EXPECT_EQ(flops(model, 8, 0, 1), 2 * (1500.0 * 3 * 8 + 1000) + 4.0 * 3 * 20 * 4 * 8);
  // A prompt in two chunks does the same as in one, but for the head.
  EXPECT_EQ(flops(model, 5, 0, 0) + flops(model, 3, 5, 1), flops(model, 8, 0, 1));
}

TEST(StepCostTest, CountsWindowLayersAsFarAsTheyReach) {
  model::ModelDescription model;
  model.heads = 1;
  model.head_dim = 1;
  model.kv_heads = 1;
  model.layers = 1;
  const double full = flops(model, 100, 50, 0);
  model.attention = {{.window = 150}};
  EXPECT_EQ(flops(model, 100, 50, 0), full);
  model.attention = {{.window = 10}};
  EXPECT_EQ(flops(model, 100, 50, 0), 4.0 * 10 * 100);  // hidden and ffn are zero
  EXPECT_EQ(flops(model, 20, 0, 0), 4.0 * (10 * 5 + 10 * 10));
  EXPECT_EQ(flops(model, 15, 0, 0) + flops(model, 5, 15, 0), flops(model, 20, 0, 0));
}

TEST(StepCostTest, ReadsTheKvOfWindowLayersAsFarAsTheyReach) {
  const std::unique_ptr<Engine> engine =
      make_engine({.model = "tests/data/models/tiny_gemma3.gguf"});
  const model::ModelDescription& tiny = engine->description();
  BatchPlan plan;
  SequencePlan& sequence = plan.sequences.emplace_back();
  sequence.tokens = {1, 2};
  sequence.first_position = 99;
  const StepCost cost = step_cost(*engine, plan);
  const double kv = 2.0 * 2 * tiny.kv_heads * tiny.head_dim;  // bf16, of a token and a layer
  EXPECT_EQ(cost.bytes,
            static_cast<double>(engine->weight_bytes(0)) + kv * (1 * 101 + 6 * (24 - 1 + 2)));
}

TEST(StepCostTest, ReadsAllWeightsOnceAndTheKvOfEverySequence) {
  const std::unique_ptr<Engine> engine = make_engine({});
  BatchPlan plan;
  for (const int position : {0, 99}) {
    SequencePlan& sequence = plan.sequences.emplace_back();
    sequence.tokens = {1};
    sequence.first_position = position;
    sequence.logits = LogitsWanted::kLast;
  }
  const StepCost cost = step_cost(*engine, plan);
  const model::ModelDescription& tiny = engine->description();
  const double kv = 2.0 * 2 * tiny.layers * tiny.kv_heads * tiny.head_dim;  // bf16, of a token
  EXPECT_EQ(cost.bytes, static_cast<double>(engine->weight_bytes(0)) + kv * 101);
  EXPECT_EQ(cost.flops, flops(tiny, 1, 0, 1) + flops(tiny, 1, 99, 1));
}

TEST(StepCostTest, TakesTheSlowerOfArithmeticAndReading) {
  EXPECT_EQ(roofline_seconds({.flops = 100, .bytes = 10}, {.flops = 50, .read_bytes_per_s = 10}),
            2);
  EXPECT_EQ(roofline_seconds({.flops = 10, .bytes = 30}, {.flops = 50, .read_bytes_per_s = 10}), 3);
  EXPECT_EQ(roofline_seconds({.flops = 10, .bytes = 30}, {}), 0);
}

}  // namespace
}  // namespace baton::engine
