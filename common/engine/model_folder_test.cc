// A folder of safetensors and the GGUF file of the same weights are one model.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "common/engine/engine_test_support.h"
#include "common/model/testing/reference_logits.h"

namespace baton::engine {
namespace {

std::string folder_of(const std::string& name) { return "tests/data/folders/" + name; }

class ModelFolderTest : public ::testing::TestWithParam<const char*> {
 protected:
  EngineSetup setup(const std::string& suffix) const {
    return {.model = folder_of(GetParam()) + suffix,
            .isa = device::available_isas().back(),
            .max_batch_tokens = 256};
  }
  static Trace trace_of(const EngineSetup& setup) {
    const std::unique_ptr<Engine> engine = make_engine(setup);
    Request request;
    request.prompt = random_tokens(3, 90, engine->description().vocab);
    request.outputs = 8;
    return Driver(*engine).run(request);
  }
};

INSTANTIATE_TEST_SUITE_P(Tiny, ModelFolderTest,
                         ::testing::Values("llama_sharded", "mistral_window", "qwen2", "qwen3",
                                           "gemma3"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(ModelFolderTest, GivesTheBitsOfTheGgufFile) {
  const Trace folder = trace_of(setup(""));
  const Trace file = trace_of(setup(".gguf"));
  ASSERT_EQ(folder.logits.size(), 8u);
  EXPECT_TRUE(same_bits(folder, file));
}

TEST_P(ModelFolderTest, LogitsAreThoseOfTransformers) {
  const auto prompts = model::read_reference_logits(std::string(BATON_SOURCE_DIR) + "/" +
                                                    folder_of(GetParam()) + ".logits");
  ASSERT_EQ(prompts.size(), 4u);
  const std::unique_ptr<Engine> engine = make_engine(setup(""));
  double worst = 0;
  for (const model::ReferencePrompt& prompt : prompts) {
    Request request;
    request.prompt = prompt.tokens;
    const Trace trace = Driver(*engine).run(request);
    const std::vector<float>& want = prompt.rows.back().logits;
    double error = 0;
    double square = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      error += std::pow(double{trace.logits[0][i]} - want[i], 2);
      square += std::pow(double{want[i]}, 2);
    }
    worst = std::max(worst, std::sqrt(error / square));
  }
  std::printf("%s: relative error %.4f at worst\n", GetParam(), worst);
  EXPECT_LT(worst, 0.08);
}

}  // namespace
}  // namespace baton::engine
