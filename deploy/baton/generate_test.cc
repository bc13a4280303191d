#include "deploy/baton/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "common/config/program_options.h"
#include "deploy/baton/engine_bench.h"
#include "deploy/baton/sequence_runner.h"
#include "deploy/baton/temp_folder.h"
#include "deploy/baton/token_files.h"

namespace baton::cli {
namespace {

EngineFlags flags(const std::string& model) {
  EngineFlags flags;
  flags.model = std::string(BATON_SOURCE_DIR) + "/" + model;
  flags.threads = 1;
  return flags;
}

std::unique_ptr<engine::Engine> tiny_engine() {
  return make_engine(flags("tests/data/models/tiny_q4_1.gguf"),
                     {.positions = 100, .sequences = 2, .batch_tokens = 64},
                     engine::EngineOptions::Pool::kDecode)
      .value();
}

TEST(SequenceRunnerTest, GivesTheSameRowsHoweverTokensAreFed) {
  const std::unique_ptr<engine::Engine> engine = tiny_engine();
  std::vector<TokenId> tokens;
  for (int i = 0; i < 70; ++i) {
    tokens.push_back((i * 37) % engine->description().vocab);
  }
  const auto vocab = static_cast<size_t>(engine->description().vocab);
  SequenceRunner whole(*engine, 64);
  const std::vector<float> rows = whole.feed_for_logits(tokens, true).value();
  ASSERT_EQ(rows.size(), 70 * vocab);
  SequenceRunner chunked(*engine, 7);
  chunked.feed(std::span(tokens).first(50));
  const std::vector<float> last =
      chunked.feed_for_logits(std::span(tokens).subspan(50), false).value();
  EXPECT_EQ(chunked.position(), 70);
  EXPECT_TRUE(std::equal(last.begin(), last.end(), rows.end() - static_cast<int64_t>(vocab)));
  chunked.reset();
  EXPECT_EQ(chunked.feed_for_logits(tokens, true).value(), rows);
}

TEST(EngineFlagsTest, RefusesWhatDoesNotFit) {
  EngineFlags three = flags("tests/data/models/tiny_q4_1.gguf");
  three.threads = 3;
  three.tensor_parallel = 2;
  EXPECT_EQ(
      make_engine(three, {.positions = 8, .batch_tokens = 8}, engine::EngineOptions::Pool::kDecode)
          .status()
          .message(),
      "--threads 3 cannot be shared out to 2 ranks; give a multiple");
  EngineFlags unknown = flags("tests/data/models/tiny_q4_1.gguf");
  unknown.isa = "sse9";
  EXPECT_FALSE(make_engine(unknown, {.positions = 8, .batch_tokens = 8},
                           engine::EngineOptions::Pool::kDecode)
                   .ok());
  EXPECT_GE(thread_count({}).value(), 1);
}

std::string output_of(const GenerateOptions& options) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run_generate(options), config::kExitStopped);
  return ::testing::internal::GetCapturedStdout();
}

TEST(GenerateTest, SaysTheSameAsJsonAsTextAndWithForcedTokens) {
  const TempFolder folder;
  GenerateOptions options;
  options.engine = flags("models/smollm2-135m-instruct-q4_1.gguf");
  options.prompt = "The capital of France is";
  options.max_tokens = 3;
  options.json = true;
  const std::string expected =
      "{\"tokens\":[7042,30,198],\"text\":\" Paris.\\n\",\"prompt_tokens\":[504,3575,282,4649,"
      "314]}\n";
  EXPECT_EQ(output_of(options), expected);
  options.json = false;
  EXPECT_EQ(output_of(options), " Paris.\n\n");

  GenerateOptions forced = options;
  forced.json = true;
  forced.prompt.clear();
  forced.prompt_ids_file = folder.write("prompt", "504 3575\n282, 4649 314\n");
  forced.force_ids_file = folder.write("forced", "[7042,30,198]");
  forced.logits_file = folder.path("logits");
  forced.engine.chunk = 2;
  forced.max_tokens = 1;  // the forced ids say how many
  EXPECT_EQ(output_of(forced), expected);
  EXPECT_EQ(std::filesystem::file_size(forced.logits_file), 3u * 49152 * sizeof(float));
}

TEST(GenerateTest, RefusesWhatItCannotDo) {
  GenerateOptions options;
  options.engine = flags("models/none.gguf");
  options.prompt = "x";
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_generate(options), config::kExitCannotStart);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("none.gguf"), std::string::npos);
}

TEST(TokenFilesTest, ReadsListsAndNumbers) {
  EXPECT_EQ(parse_token_ids(" [1, 2,3 ]\n", 10).value(), (std::vector<TokenId>{1, 2, 3}));
  EXPECT_EQ(parse_token_ids("1 2\n3\t4", 10).value(), (std::vector<TokenId>{1, 2, 3, 4}));
  EXPECT_EQ(parse_token_ids("1 10", 10).status().message(),
            "entry 1, \"10\", is no token id in 0..9");
  EXPECT_EQ(parse_token_ids("[-1]", 10).status().message(),
            "entry 0, \"-1\", is no token id in 0..9");
  EXPECT_EQ(parse_token_ids("[[1]]", 10).status().message(),
            "entry 0, \"[1]\", is no token id in 0..9");
  EXPECT_EQ(parse_token_ids("[]", 10).status().message(), "no token ids");
  EXPECT_FALSE(read_token_ids("/nonexistent", 10).ok());
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
  EXPECT_EQ(prefill_flops(model, 8), 2 * (1500.0 * 3 * 8 + 1000) + 4.0 * 3 * 20 * 4 * 8);
  const std::unique_ptr<engine::Engine> engine = tiny_engine();
  const double kv = decode_bytes(*engine, 3, 50) - static_cast<double>(engine->weight_bytes(0));
  const model::ModelDescription& tiny = engine->description();
  EXPECT_EQ(kv, 2.0 * 2 * tiny.layers * tiny.kv_heads * tiny.head_dim * 3 * 50);
}

TEST(EngineBenchTest, ReportsSharesOfTheMeanProbe) {
  EngineBenchResult result;
  result.prefill = {{512, 1000, 50}};
  result.decode = {{1, 256, 80, 40}, {8, 256, 500, 80}};
  result.start = {.flops = 90, .read_bytes_per_s = 95};
  result.end = {.flops = 100, .read_bytes_per_s = 105};
  result.isa = "avx2";
  result.threads = 2;
  result.ranks = 1;
  EXPECT_TRUE(result.steady());
  EXPECT_EQ(bench_json(result),
            "{\"prefill\":[{\"prompt\":512,\"tokens_per_s\":1000.00,\"peak_share\":0.5263}],"
            "\"decode\":[{\"batch\":1,\"context\":256,\"tokens_per_s\":80.00,"
            "\"bandwidth_share\":0.4000},{\"batch\":8,\"context\":256,\"tokens_per_s\":500.00,"
            "\"bandwidth_share\":0.8000}],\"probe\":{\"start\":{\"flops\":90,"
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
