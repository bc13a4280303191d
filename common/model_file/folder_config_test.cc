#include "common/model_file/folder_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>

namespace baton::model_file {
namespace {

using ::testing::HasSubstr;

// Of transformers 4, with the keys that published files have.
std::string config_text(const std::string& type, const std::string& more = "") {
  return R"({"model_type": ")" + type +
         R"(", "architectures": ["X"], "hidden_size": 64, "intermediate_size": 128,
  "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100,
  "max_position_embeddings": 512, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
  "torch_dtype": "bfloat16", "use_cache": true)" +
         (more.empty() ? "" : ", " + more) + "}";
}

// The metadata as a file that can be asked.
class Read final {
 public:
  explicit Read(const std::string& text) {
    Result<FolderConfig> config = read_folder_config(text, "config.json");
    if (!config.ok()) {
      error = config.status().to_string();
      return;
    }
    tied = config->tied;
    head_dim = config->head_dim;
    ModelFileContents contents;
    contents.metadata = std::move(config->metadata).finish(contents.made);
    file = ModelFile(std::move(contents));
  }
  uint32_t u32(std::string_view key) const { return file.find_u32(key).value().value_or(0); }
  float f32(std::string_view key) const { return file.find_f32(key).value().value_or(0); }
  std::string text(std::string_view key) const {
    return std::string(file.find_string(key).value().value_or(""));
  }

  std::string error;
  bool tied = false;
  uint32_t head_dim = 0;
  ModelFile file{ModelFileContents()};
};

TEST(FolderConfigTest, SaysWhatAGgufFileSays) {
  const Read llama(config_text("llama", R"("tie_word_embeddings": true, "hidden_act": "silu")"));
  EXPECT_EQ(llama.error, "");
  EXPECT_EQ(llama.text("general.architecture"), "llama");
  EXPECT_EQ(llama.u32("llama.block_count"), 4u);
  EXPECT_EQ(llama.u32("llama.embedding_length"), 64u);
  EXPECT_EQ(llama.u32("llama.feed_forward_length"), 128u);
  EXPECT_EQ(llama.u32("llama.attention.head_count"), 4u);
  EXPECT_EQ(llama.u32("llama.attention.head_count_kv"), 2u);
  EXPECT_EQ(llama.u32("llama.attention.key_length"), 16u);
  EXPECT_EQ(llama.u32("llama.context_length"), 512u);
  EXPECT_EQ(llama.u32("llama.vocab_size"), 100u);
  EXPECT_EQ(llama.f32("llama.attention.layer_norm_rms_epsilon"), 1e-5F);
  EXPECT_EQ(llama.f32("llama.rope.freq_base"), 500000.0F);
  EXPECT_TRUE(llama.tied);
  EXPECT_FALSE(llama.file.has("llama.rope.scaling.type"));
  EXPECT_FALSE(Read(config_text("llama")).tied);
  EXPECT_TRUE(Read(config_text("gemma3_text")).tied);
  EXPECT_EQ(Read(config_text("qwen3")).head_dim, 128u);
}

TEST(FolderConfigTest, ReadsScaledRopeOfBothVersions) {
  const std::string scaling =
      R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192)";
  const Read v4(config_text("llama", R"("rope_scaling": )" + scaling + "}"));
  const Read v5(config_text("llama", R"("rope_parameters": )" + scaling + R"(, "rope_theta": 7})"));
  for (const Read* read : {&v4, &v5}) {
    EXPECT_EQ(read->error, "");
    EXPECT_EQ(read->text("llama.rope.scaling.type"), "llama3");
    EXPECT_EQ(read->f32("llama.rope.scaling.factor"), 8.0F);
    EXPECT_EQ(read->f32("llama.rope.scaling.high_freq_factor"), 4.0F);
    EXPECT_EQ(read->u32("llama.rope.scaling.original_context_length"), 8192u);
  }
  EXPECT_EQ(v4.f32("llama.rope.freq_base"), 500000.0F);
  EXPECT_EQ(v5.f32("llama.rope.freq_base"), 7.0F);
  const Read old(config_text("llama", R"("rope_scaling": {"type": "linear", "factor": 2})"));
  EXPECT_EQ(old.text("llama.rope.scaling.type"), "linear");
  const Read yarn(config_text(
      "qwen2", R"("rope_scaling": {"type": "yarn", "factor": 4, "attention_factor": 1.5})"));
  EXPECT_NEAR(yarn.f32("qwen2.rope.scaling.attn_factor"), 1.5 / 1.1386294, 1e-6);
  EXPECT_THAT(Read(config_text("llama", R"("rope_scaling": {"mscale": 0.7})")).error,
              HasSubstr("'mscale' = 7E-1"));
  EXPECT_THAT(Read(config_text("llama", R"("rope_scaling": 3)")).error, HasSubstr("an object"));
}

TEST(FolderConfigTest, ReadsWindows) {
  EXPECT_EQ(Read(config_text("mistral", R"("sliding_window": 4096)"))
                .u32("llama.attention.sliding_window"),
            4096u);
  EXPECT_FALSE(Read(config_text("mistral", R"("sliding_window": null)"))
                   .file.has("llama.attention.sliding_window"));
  EXPECT_FALSE(Read(config_text("qwen2", R"("sliding_window": 4096, "use_sliding_window": false,
                                            "max_window_layers": 2)"))
                   .file.has("qwen2.attention.sliding_window"));
  const Read v4(config_text("gemma3_text", R"("sliding_window": 512, "sliding_window_pattern": 2,
      "rope_local_base_freq": 10000.0, "query_pre_attn_scalar": 256,
      "hidden_activation": "gelu_pytorch_tanh")"));
  const Read v5(config_text("gemma3_text", R"("sliding_window": 512, "query_pre_attn_scalar": 256,
      "layer_types": ["sliding_attention", "full_attention", "sliding_attention",
                      "full_attention"],
      "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1e6},
                          "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}})"));
  for (const Read* read : {&v4, &v5}) {
    EXPECT_EQ(read->error, "");
    EXPECT_EQ(read->u32("gemma3.attention.sliding_window"), 512u);
    EXPECT_EQ(read->u32("gemma3.attention.sliding_window_pattern"), 2u);
    EXPECT_EQ(read->f32("gemma3.rope.freq_base_swa"), 10000.0F);
    EXPECT_EQ(read->f32("gemma3.attention.scale"), 0.0625F);
  }
  EXPECT_EQ(v5.f32("gemma3.rope.scaling.factor"), 8.0F);
  EXPECT_EQ(v5.f32("gemma3.rope.freq_base"), 1e6F);
}

TEST(FolderConfigTest, RefusesLayersInNoPattern) {
  const auto error = [](const std::string& types, const std::string& model = "gemma3_text") {
    return Read(config_text(model, R"("sliding_window": 8, "layer_types": [)" + types + "]")).error;
  };
  const std::string full = "\"full_attention\"";
  const std::string window = "\"sliding_attention\"";
  EXPECT_THAT(error(window + "," + full + "," + full + "," + full), HasSubstr("every 2. layer"));
  EXPECT_THAT(error(full + "," + window + "," + full + "," + full), HasSubstr("every 1. layer"));
  EXPECT_THAT(error(full), HasSubstr("no array of 4 names"));
  EXPECT_THAT(error("\"linear_attention\",1,1,1"), HasSubstr("layer type 'linear_attention'"));
  EXPECT_THAT(error(window + "," + full + "," + window + "," + full, "qwen3"),
              HasSubstr("windows in some layers"));
}

TEST(FolderConfigTest, RefusesWhatIsUnknownByKeyAndValue) {
  EXPECT_EQ(Read(R"({"model_type": "mixtral"})").error,
            "unsupported: config.json: model_type 'mixtral' is not supported; Baton runs: llama, "
            "mistral, qwen2, qwen3, gemma3_text");
  EXPECT_EQ(Read(config_text("llama", R"("num_local_experts": 8)")).error,
            "unsupported: config.json: has the key 'num_local_experts' = 8, which Baton does not "
            "know");
  EXPECT_THAT(
      Read(config_text("llama", R"("quantization_config": {"quant_method": "gptq"})")).error,
      HasSubstr("'quantization_config' = an object"));
  EXPECT_THAT(Read(config_text("llama", R"("hidden_act": "gelu")")).error,
              HasSubstr("'hidden_act' = 'gelu'"));
  EXPECT_THAT(Read(config_text("gemma3_text", R"("final_logit_softcapping": 30.0)")).error,
              HasSubstr("soft caps"));
  EXPECT_THAT(Read(config_text("gemma3_text", R"("use_bidirectional_attention": true)")).error,
              HasSubstr("not causal"));
  EXPECT_EQ(Read(config_text("llama", R"("some_new_thing": null)")).error, "");
}

TEST(FolderConfigTest, RefusesWhatCannotBe) {
  EXPECT_THAT(Read("[]").error, HasSubstr("is no JSON object"));
  EXPECT_THAT(Read("{\"a\": ").error, HasSubstr("config.json: is no JSON from byte"));
  EXPECT_THAT(Read("{}").error, HasSubstr("has no 'model_type'"));
  EXPECT_THAT(Read(R"({"model_type": "llama", "hidden_size": -3})").error,
              HasSubstr("'hidden_size' = -3; it must be a whole number below 2^32"));
  EXPECT_THAT(Read(R"({"model_type": "llama"})").error, HasSubstr("'hidden_size' is missing"));
  EXPECT_THAT(Read(config_text("llama", R"("tie_word_embeddings": 1)")).error,
              HasSubstr("true or false"));
  EXPECT_THAT(Read(config_text("llama", R"("partial_rotary_factor": 1e300)")).error,
              HasSubstr("no part of a head"));
}

}  // namespace
}  // namespace baton::model_file
