#include "deploy/baton/model_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include <boost/json.hpp>

#include "common/config/program_options.h"
#include "common/engine/step_cost.h"

namespace baton::cli {
namespace {

using ::testing::HasSubstr;

const std::string kTiny = std::string(BATON_SOURCE_DIR) + "/tests/data/models/tiny_kmix.gguf";

struct Printed {
  int status = 0;
  std::string out;
  std::string err;
};

Printed run(const ModelOptions& options) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Printed printed;
  printed.status = run_model(options);
  printed.out = ::testing::internal::GetCapturedStdout();
  printed.err = ::testing::internal::GetCapturedStderr();
  return printed;
}

TEST(ModelReportTest, PrintsWhatAFileIs) {
  const Printed printed = run({.path = kTiny, .kv_cache = "64MiB"});
  EXPECT_EQ(printed.status, config::kExitStopped) << printed.err;
  for (const char* part :
       {"model          tiny_kmix\n", "architecture   llama, ", "Q5_K 3 (", "Q6_K 2 (",
        "vocabulary     byte-level BPE, 320 tokens, with a chat template",
        "1 layers, hidden 256, 8 heads, 2 KV heads of 32", "context        512 tokens",
        "KV cache       256 B a token; 64.0 MiB hold 262144 tokens", "memory  decode",
        "at most        prefill "}) {
    EXPECT_THAT(printed.out, HasSubstr(part));
  }
}

TEST(ModelReportTest, PrintsOneJsonObject) {
  const Printed printed = run({.path = kTiny, .json = true});
  EXPECT_EQ(printed.status, config::kExitStopped) << printed.err;
  const boost::json::object report = boost::json::parse(printed.out).as_object();
  EXPECT_EQ(report.at("architecture").as_string(), "llama");
  EXPECT_EQ(report.at("types").as_array().size(), 4u);
  EXPECT_EQ(report.at("vocabulary").at("tokens").to_number<int>(), 320);
  EXPECT_EQ(report.at("kv_bytes_per_token").at("full").to_number<int>(), 256);
  EXPECT_EQ(report.at("memory").at("decode").at("kv_cache").to_number<uint64_t>(), 1ull << 30);
  EXPECT_GT(report.at("roofline").at("decode_tokens_per_s").to_number<double>(), 0);
  EXPECT_TRUE(report.at("refused").as_array().empty());
}

TEST(ModelReportTest, PrintsEveryReasonForARefusal) {
  const std::string path =
      testing::TempDir() + "model_report_test." + std::to_string(getpid()) + ".gguf";
  {
    std::ifstream in(kTiny, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    const auto rename = [&bytes](std::string_view from, std::string_view to) {
      bytes.replace(bytes.find(from), from.size(), to);
    };
    rename("llama.context_length", "llama.kontext_length");
    rename("tokenizer.ggml.pre", "tokenizer.ggml.prx");
    std::ofstream(path, std::ios::binary) << bytes;
  }
  const Printed printed = run({.path = path});
  const Printed json = run({.path = path, .json = true});
  std::remove(path.c_str());
  EXPECT_EQ(printed.status, config::kExitCannotStart);
  EXPECT_THAT(printed.out, HasSubstr("refused: " + path + ": has the key 'llama.kontext_length'"));
  EXPECT_THAT(printed.out, HasSubstr("refused: " + path +
                                     ": metadata key 'llama.context_length' (u32) is missing"));
  EXPECT_THAT(printed.out, HasSubstr("'tokenizer.ggml.pre' (string) is missing"));
  EXPECT_EQ(boost::json::parse(json.out).at("refused").as_array().size(), 3u);
  EXPECT_THAT(printed.out, ::testing::Not(HasSubstr("at most")));
}

TEST(ModelReportTest, SaysInOneLineWhatCannotBeOpened) {
  const Printed printed = run({.path = "no/such.gguf"});
  EXPECT_EQ(printed.status, config::kExitCannotStart);
  EXPECT_EQ(printed.out, "");
  EXPECT_THAT(printed.err, HasSubstr("baton: no/such.gguf: no such file"));
  EXPECT_THAT(run({.path = kTiny, .kv_cache = "much"}).err, HasSubstr("--kv-cache is 'much'"));
}

TEST(ModelReportTest, RatesAreThoseOfTheRoofline) {
  model::ModelDescription model;
  model.hidden = 10;
  model.heads = 4;
  model.kv_heads = 2;
  model.head_dim = 5;
  model.ffn = 30;
  model.layers = 3;
  model.vocab = 100;
  model.max_context = 4096;
  model.attention = {{.window = 16}, {.window = 0}, {.window = 0}};
  const engine::MemoryNeed need = {.weights = 1'000'000, .kv_cache = 0, .rest = 0};
  // Reading binds: weights and, of each sequence, 256 tokens in two layers and 16 in the third.
  const double kv = 2 * 2 * 2 * 5 * (2 * 256.0 + 16);
  const ModelRates slow = rates_of(model, need, need, {.flops = 1e15, .read_bytes_per_s = 1e6});
  EXPECT_NEAR(slow.decode_per_s, 1e6 / (1e6 + kv), 1e-9);
  EXPECT_NEAR(slow.decode_16_per_s, 16e6 / (1e6 + 16 * kv), 1e-9);
  EXPECT_NEAR(slow.prefill_per_s, 512, 1e-9);
  // Arithmetic binds.
  const ModelRates weak = rates_of(model, need, need, {.flops = 1e3, .read_bytes_per_s = 1e15});
  EXPECT_NEAR(weak.prefill_per_s, 512e3 / engine::flops(model, 512, 0, 1), 1e-9);
}

}  // namespace
}  // namespace baton::cli
