#include "deploy/baton/command_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "common/config/program_options.h"

namespace baton::cli {
namespace {

struct Parsed {
  CommandLine line;
  std::string out;
  std::string err;
};

Parsed parse(std::vector<const char*> words) {
  words.insert(words.begin(), "baton");
  std::ostringstream out;
  std::ostringstream err;
  Parsed parsed;
  parsed.line = parse_command_line(static_cast<int>(words.size()), words.data(), out, err);
  parsed.out = out.str();
  parsed.err = err.str();
  return parsed;
}

TEST(CommandLineTest, ReadsUp) {
  const Parsed parsed = parse({"up", "c.yaml", "--port", "0", "--set", "a.b=1", "--set", "c.d=2",
                               "--ready-file", "r", "--once"});
  ASSERT_FALSE(parsed.line.exit_status.has_value()) << parsed.err;
  const auto& up = std::get<UpOptions>(parsed.line.command);
  EXPECT_EQ(up.config_path, "c.yaml");
  EXPECT_EQ(up.port, 0);
  EXPECT_EQ(up.overrides, (std::vector<std::string>{"a.b=1", "c.d=2"}));
  EXPECT_EQ(up.ready_file, "r");
  EXPECT_TRUE(up.once);
  EXPECT_FALSE(up.first_answer);
}

TEST(CommandLineTest, ReadsTheOtherCommands) {
  EXPECT_EQ(std::get<StatusOptions>(parse({"status", "--url", "http://h:1"}).line.command).url,
            "http://h:1");
  EXPECT_EQ(std::get<StatusOptions>(parse({"status"}).line.command).watch_s, std::nullopt);
  EXPECT_EQ(std::get<StatusOptions>(parse({"status", "--watch"}).line.command).watch_s, 2);
  EXPECT_EQ(
      std::get<StatusOptions>(parse({"status", "--watch", "0.5", "--json"}).line.command).watch_s,
      0.5);
  const auto chat = std::get<ChatOptions>(parse({"chat", "--system", "Be brief.", "--max-tokens",
                                                 "9", "--temperature", "0.5", "--seed", "-1"})
                                              .line.command);
  EXPECT_EQ(chat.system, "Be brief.");
  EXPECT_EQ(chat.max_tokens, 9);
  EXPECT_EQ(chat.temperature, 0.5);
  EXPECT_EQ(chat.seed, -1);
  EXPECT_EQ(std::get<ChatOptions>(parse({"chat"}).line.command).max_tokens, std::nullopt);
  const auto generate =
      std::get<GenerateOptions>(parse({"generate", "--model", "m", "--prompt", "x", "--seed",
                                       "18446744073709551615", "--tensor-parallel", "2"})
                                    .line.command);
  EXPECT_EQ(generate.engine.model, "m");
  EXPECT_EQ(generate.engine.tensor_parallel, 2);
  EXPECT_EQ(generate.seed, UINT64_MAX);
  EXPECT_EQ(generate.temperature, 0);
  const auto bench = std::get<EngineBenchOptions>(
      parse({"bench", "engine", "--model", "m", "--decode-batch", "1,8", "--prompt", "512"})
          .line.command);
  EXPECT_EQ(bench.decode_batches, (std::vector<int>{1, 8}));
  EXPECT_EQ(bench.prompts, (std::vector<int>{512}));
  EXPECT_EQ(std::get<QualityOptions>(
                parse({"bench", "quality", "--model", "m", "--reference", "r"}).line.command)
                .reference,
            "r");
  const auto serve = std::get<serve_bench::ServeBenchOptions>(
      parse({"bench", "serve", "--url", "http://h:1", "--rate", "2.5", "--slo-ttft-ms", "500",
             "--endpoint", "chat"})
          .line.command);
  EXPECT_EQ(serve.rate, 2.5);
  EXPECT_EQ(serve.slo_ttft_ms, 500);
  EXPECT_EQ(serve.endpoint, "chat");
  EXPECT_EQ(serve.output, 64);
}

TEST(CommandLineTest, RefusesBadUsageInOneLine) {
  for (const auto& words : std::vector<std::vector<const char*>>{
           {"up", "--port", "65536"},
           {"up", "--nothing"},
           {"status", "--watch", "0"},
           {"generate", "--model", "m"},
           {"generate", "--model", "m", "--prompt", "x", "--prompt-ids", "f"},
           {"bench", "engine"},
           {"bench", "transfer", "--transport", "pigeon"},
           {"bench", "serve", "--endpoint", "fax"},
           {"bench", "serve", "--rate", "0"},
           {"bench"},
           {"nothing"}}) {
    const Parsed parsed = parse(words);
    EXPECT_EQ(parsed.line.exit_status, config::kExitUsage);
    EXPECT_TRUE(parsed.err.starts_with("baton: ")) << parsed.err;
    EXPECT_EQ(std::ranges::count(parsed.err, '\n'), 1) << parsed.err;
    EXPECT_EQ(parsed.out, "");
  }
  EXPECT_EQ(parse({}).line.exit_status, config::kExitUsage);
}

TEST(CommandLineTest, HelpFitsAScreenAndEndsWithTwoExamples) {
  for (const auto& words : std::vector<std::vector<const char*>>{{"--help"},
                                                                 {"up", "--help"},
                                                                 {"status", "--help"},
                                                                 {"generate", "--help"},
                                                                 {"bench", "--help"},
                                                                 {"bench", "engine", "--help"},
                                                                 {"bench", "quality", "--help"},
                                                                 {"bench", "transfer", "--help"},
                                                                 {"bench", "serve", "--help"}}) {
    const Parsed parsed = parse(words);
    EXPECT_EQ(parsed.line.exit_status, config::kExitStopped);
    EXPECT_LE(std::ranges::count(parsed.out, '\n'), 40) << parsed.out;
    const size_t examples = parsed.out.rfind("examples:\n  baton ");
    ASSERT_NE(examples, std::string::npos) << parsed.out;
    const std::string rest = parsed.out.substr(examples + 10);
    EXPECT_EQ(std::ranges::count(rest, '\n'), 2) << rest;
  }
}

TEST(CommandLineTest, VersionNamesTheBuild) {
  const Parsed parsed = parse({"--version"});
  EXPECT_EQ(parsed.line.exit_status, config::kExitStopped);
  EXPECT_TRUE(parsed.out.starts_with("baton 0.")) << parsed.out;
  EXPECT_NE(parsed.out.find("instruction sets: scalar"), std::string::npos);
}

}  // namespace
}  // namespace baton::cli
