#include "deploy/baton/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "common/config/program_options.h"
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

}  // namespace
}  // namespace baton::cli
