// Against transformers: logits recorded beside the tiny models (tests/data/models).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/engine/engine_test_support.h"
#include "common/model/testing/reference_logits.h"

namespace baton::engine {
namespace {

struct Difference {
  double mean = 0;      // of all rows: |ours - theirs| / |theirs|, both as vectors
  double worst = 0;     // of a row
  double absolute = 0;  // the largest of a single logit
  int rows = 0;
};

void add_row(std::span<const float> ours, std::span<const float> theirs, Difference& d) {
  double error = 0;
  double square = 0;
  for (size_t i = 0; i < theirs.size(); ++i) {
    const double difference = double{ours[i]} - theirs[i];
    error += difference * difference;
    square += std::pow(double{theirs[i]}, 2);
    d.absolute = std::max(d.absolute, std::fabs(difference));
  }
  const double relative = std::sqrt(error / square);
  d.mean = (d.mean * d.rows + relative) / (d.rows + 1);
  d.worst = std::max(d.worst, relative);
  ++d.rows;
}

// The model with all prompts that were recorded as `recorded`.
Difference difference_from(const std::string& model, const std::string& recorded) {
  const std::string folder = "tests/data/models/";
  const std::unique_ptr<Engine> engine = make_engine({.model = folder + model + ".gguf",
                                                      .isa = device::available_isas().back(),
                                                      .threads = 2,
                                                      .segments = 2});
  const std::vector<model::ReferencePrompt> prompts = model::read_reference_logits(
      std::string(BATON_SOURCE_DIR) + "/" + folder + recorded + ".logits");
  EXPECT_FALSE(prompts.empty());
  Difference difference;
  for (const model::ReferencePrompt& prompt : prompts) {
    auto plan = std::make_unique<BatchPlan>();
    SequencePlan sequence;
    sequence.id = SequenceId{1};
    sequence.tokens = prompt.tokens;
    for (BlockId id = 0; id < 10; ++id) {
      sequence.blocks.push_back(9 - id);
    }
    sequence.logits = LogitsWanted::kAll;
    sequence.return_logits = true;
    plan->zero_values = sequence.blocks;
    if (engine->pool(0).layout().group_count() > 1) {
      sequence.window_blocks = sequence.blocks;
      plan->window_zero_values = sequence.blocks;
    }
    plan->sequences.push_back(std::move(sequence));
    const StepOutput output = engine->run(std::move(plan));
    for (const model::ReferenceRow& row : prompt.rows) {
      const size_t vocab = row.logits.size();
      add_row(std::span(output.sequences[0].logits)
                  .subspan(static_cast<size_t>(row.position) * vocab, vocab),
              row.logits, difference);
    }
  }
  std::printf("%s: relative difference %.5f in the mean, %.5f at worst; of a logit %.4f\n",
              recorded.c_str(), difference.mean, difference.worst, difference.absolute);
  return difference;
}

class WeightFormatsTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Tiny, WeightFormatsTest,
                         ::testing::Values("tiny_f32", "tiny_f16", "tiny_bf16", "tiny_q8_0",
                                           "tiny_q4_1", "tiny_q4_0", "tiny_kmix"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(WeightFormatsTest, LogitsAreThoseOfTransformers) {
  const Difference difference = difference_from(GetParam(), GetParam());
  // What rounding to bf16 costs on these sharp little models: an emulation of the rounding points
  // alone (numpy, float32 sums) gives the same figures to four digits.
  EXPECT_LT(difference.worst, 0.08);
  EXPECT_LT(difference.mean, 0.03);
}

class ArchitecturesTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Tiny, ArchitecturesTest, ::testing::ValuesIn(kArchitectureModels),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(ArchitecturesTest, LogitsAreThoseOfTransformers) {
  const std::string name = GetParam();
  const Difference difference = difference_from(name, name);
  EXPECT_LT(difference.worst, 0.08);
  EXPECT_LT(difference.mean, 0.03);
}

// transformers with the rounding points of docs/numerics.md: what is left is the order of sums, and
// that it now and then tips a rounding.
TEST_P(ArchitecturesTest, LogitsAreThoseOfTransformersRoundedAlike) {
  const std::string name = GetParam();
  const Difference difference = difference_from(name, name + ".rounded");
  EXPECT_LT(difference.worst, 0.008);
  EXPECT_LT(difference.mean, 0.002);
}

}  // namespace
}  // namespace baton::engine
