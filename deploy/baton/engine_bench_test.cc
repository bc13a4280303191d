#include "deploy/baton/engine_bench.h"

#include <gtest/gtest.h>

#include "common/config/program_options.h"

namespace baton::cli {
namespace {

EngineFlags tiny_flags() {
  EngineFlags flags;
  flags.model = BATON_SOURCE_DIR "/tests/data/models/tiny_q4_1.gguf";
  flags.threads = 1;
  return flags;
}

TEST(EngineBenchTest, MeasuresWhatWasAskedFor) {
  EngineBenchOptions options;
  options.engine = tiny_flags();
  options.prompts = {8, 40};
  options.decode_batches = {1, 3};
  options.contexts = {33, 64};
  options.repeats = 1;
  options.json = true;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run_engine_bench(options), config::kExitStopped);
  const std::string json = ::testing::internal::GetCapturedStdout();
  for (const char* part : {"{\"prompt\":8,", "{\"prompt\":40,", "{\"batch\":1,\"context\":33,",
                           "{\"batch\":3,\"context\":33,", "{\"batch\":1,\"context\":64,",
                           "{\"batch\":3,\"context\":64,", "\"steady\":"}) {
    EXPECT_NE(json.find(part), std::string::npos) << json;
  }
}

TEST(EngineBenchTest, DecodesMoreSequencesThanThereAreTokens) {
  EngineBenchOptions options;
  options.engine = tiny_flags();
  options.engine.model = BATON_SOURCE_DIR "/tests/data/models/tiny_f16.gguf";  // 313 tokens
  options.prompts = {8};
  options.decode_batches = {320};
  options.contexts = {1};
  options.repeats = 1;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run_engine_bench(options), config::kExitStopped);
  EXPECT_NE(::testing::internal::GetCapturedStdout().find("decode  320 x 1"), std::string::npos);
}

TEST(EngineBenchTest, RefusesWhatDoesNotFitTheContext) {
  EngineBenchOptions options;
  options.engine = tiny_flags();
  options.prompts = {100'000};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_engine_bench(options), config::kExitCannotStart);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("--prompt 100000 is longer than"),
            std::string::npos);
  options.prompts = {8};
  options.contexts = {8, 512};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_engine_bench(options), config::kExitCannotStart);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("--context 512 does not fit"),
            std::string::npos);
}

TEST(EngineBenchTest, CountsWorkAsTheFormulasSay) {
  model::ModelDescription model;
  model.hidden = 10;
  model.heads = 4;
  model.kv_heads = 2;
  model.head_dim = 5;
  model.ffn = 30;
  model.layers = 3;
  model.vocab = 100;
  // A layer: 10 * (20 + 2 * 10) + 20 * 10 + 3 * 10 * 30 = 1500 weights; the head: 1000.
  EXPECT_EQ(prefill_attention_flops(model, 8), 4.0 * 3 * 20 * 4 * 8);
  EXPECT_EQ(prefill_flops(model, 8),
            2 * (1500.0 * 3 * 8 + 1000) + prefill_attention_flops(model, 8));
  const std::unique_ptr<engine::Engine> engine =
      make_engine(tiny_flags(), {.positions = 100, .sequences = 2, .batch_tokens = 64},
                  engine::EngineOptions::Pool::kDecode)
          .value();
  const double kv = decode_bytes(*engine, 3, 50) - static_cast<double>(engine->weight_bytes(0));
  const model::ModelDescription& tiny = engine->description();
  EXPECT_EQ(kv, 2.0 * 2 * tiny.layers * tiny.kv_heads * tiny.head_dim * 3 * 50);
}

TEST(EngineBenchTest, ReportsSharesOfTheMeanProbe) {
  EngineBenchResult result;
  result.prefill = {{512, 1000, 50, 19, 0.25}};
  result.decode = {{1, 256, 80, 1e11, 40}, {8, 256, 500, 2e11, 80}};
  result.start = {.flops = 90, .read_bytes_per_s = 95};
  result.end = {.flops = 100, .read_bytes_per_s = 105};
  result.isa = "avx2";
  result.threads = 2;
  result.ranks = 1;
  EXPECT_TRUE(result.steady());
  EXPECT_EQ(
      bench_json(result),
      "{\"prefill\":[{\"prompt\":512,\"tokens_per_s\":1000.00,\"peak_share\":0.5263,"
      "\"attention_peak_share\":0.2000,\"attention_time_share\":0.2500}],"
      "\"decode\":[{\"batch\":1,\"context\":256,\"tokens_per_s\":80.00,"
      "\"step_bytes\":100000000000,\"bandwidth_share\":0.4000},"
      "{\"batch\":8,\"context\":256,\"tokens_per_s\":500.00,"
      "\"step_bytes\":200000000000,\"bandwidth_share\":0.8000}],\"probe\":{\"start\":{\"flops\":90,"
      "\"read_bytes_per_s\":95},\"end\":{\"flops\":100,\"read_bytes_per_s\":105},"
      "\"steady\":true},\"isa\":\"avx2\",\"threads\":2,\"tensor_parallel\":1}");
  result.end.flops = 120;
  EXPECT_FALSE(result.steady());
  EXPECT_NE(bench_table(result).find("no verdict"), std::string::npos);
}

TEST(EngineBenchTest, TakesTheMedian) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
}

}  // namespace
}  // namespace baton::cli
