#include "common/worker/numerics_gate.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace baton::worker {
namespace {

TEST(NumericsGateTest, RefusesWhatMovesThePredictionsTooFar) {
  EXPECT_TRUE(judge_divergence(0.0, false).ok());
  EXPECT_TRUE(judge_divergence(kLargestDivergence, false).ok());
  const Status far = judge_divergence(0.0123, false);
  EXPECT_EQ(far.code(), StatusCode::kUnsupported);
  EXPECT_EQ(far.message(),
            "numerics: fast moves this model's predictions too far: a divergence of 1.23e-02 nats, "
            "limit 5.00e-03; use numerics: invariant, or numerics_force: true to serve it all the "
            "same");
  EXPECT_FALSE(judge_divergence(std::numeric_limits<double>::infinity(), false).ok());
  EXPECT_FALSE(judge_divergence(std::numeric_limits<double>::quiet_NaN(), false).ok());
  EXPECT_TRUE(judge_divergence(0.0123, true).ok());
}

constexpr const char* kRealModel = BATON_SOURCE_DIR "/models/smollm2-135m-instruct-q4_1.gguf";
// Random weights, which suffer from codes.
constexpr const char* kTinyModel = BATON_SOURCE_DIR "/tests/data/models/tiny_q4_1.gguf";

std::unique_ptr<engine::Engine> engine_of(const char* model, engine::Arithmetic arithmetic) {
  engine::EngineOptions options;
  options.model_path = model;
  options.isa = device::available_isas().back();
  options.arithmetic = arithmetic;
  options.team.wait = device::WaitPolicy::kYield;
  options.blocks = 16;
  options.max_batch_tokens = 64;
  return std::move(engine::Engine::create(options)).value();
}

TEST(NumericsGateTest, TheDefaultModelPasses) {
  const auto engine = engine_of(kRealModel, engine::Arithmetic::kFast);
  EXPECT_TRUE(check_numerics(*engine, kRealModel, false).ok());
}

TEST(NumericsGateTest, AModelThatSuffersIsRefused) {
  const auto engine = engine_of(kTinyModel, engine::Arithmetic::kFast);
  const double divergence = engine->divergence(std::vector<TokenId>{1, 2, 3, 4, 5});
  const Status status = check_numerics(*engine, kTinyModel, false);
  std::printf("divergence of five tokens: %.2e\n", divergence);
  // A CPU without the fast arithmetic computes as invariant.
  EXPECT_EQ(status.ok(), divergence == 0) << status.to_string();
  EXPECT_TRUE(check_numerics(*engine, kTinyModel, true).ok());
}

TEST(NumericsGateTest, ACanonicalEngineNeedsNoText) {
  const auto engine = engine_of(kTinyModel, engine::Arithmetic::kCanonical);
  EXPECT_TRUE(check_numerics(*engine, "no such file", false).ok());
}

TEST(NumericsGateTest, ATokenizerThatCannotBeReadIsAnError) {
  const auto engine = engine_of(kTinyModel, engine::Arithmetic::kFast);
  EXPECT_EQ(check_numerics(*engine, "no such file", false).code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace baton::worker
