#include "common/model/description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/model_file/testing/gguf_builder.h"

namespace baton::model {
namespace {

using model_file::GgufBuilder;
using model_file::ModelFile;
using model_file::TensorType;
using ::testing::HasSubstr;

// A llama file that describe() takes; tests change one thing. An empty entry is left out.
struct LlamaFile {
  std::map<std::string, uint32_t> numbers = {
      {"block_count", 2},          {"context_length", 128},     {"embedding_length", 32},
      {"feed_forward_length", 48}, {"attention.head_count", 4}, {"attention.head_count_kv", 2},
  };
  std::map<std::string, std::vector<int64_t>> tensors;
  std::function<void(GgufBuilder&)> extra = [](GgufBuilder&) {};
  std::string architecture = "llama";
  float eps = 1e-5F;
  TensorType norm_type = TensorType::kF32;
  std::vector<float> rope_freqs;

  LlamaFile() {
    tensors["token_embd.weight"] = {32, 40};
    tensors["output_norm.weight"] = {32};
    for (const std::string layer : {"blk.0.", "blk.1."}) {
      tensors[layer + "attn_norm.weight"] = {32};
      tensors[layer + "ffn_norm.weight"] = {32};
      tensors[layer + "attn_q.weight"] = {32, 32};
      tensors[layer + "attn_k.weight"] = {32, 16};
      tensors[layer + "attn_v.weight"] = {32, 16};
      tensors[layer + "attn_output.weight"] = {32, 32};
      tensors[layer + "ffn_gate.weight"] = {32, 48};
      tensors[layer + "ffn_up.weight"] = {32, 48};
      tensors[layer + "ffn_down.weight"] = {48, 32};
    }
  }

  Result<ModelDescription> describe_it() const {
    GgufBuilder builder;
    builder.add_string("general.architecture", architecture);
    for (const auto& [key, value] : numbers) {
      builder.add_u32(architecture + "." + key, value);
    }
    builder.add_f32(architecture + ".attention.layer_norm_rms_epsilon", eps);
    for (const auto& [name, dims] : tensors) {
      const bool is_norm = name.find("norm") != std::string::npos;
      if (name == "rope_freqs.weight") {
        builder.add_tensor(
            name, static_cast<uint32_t>(TensorType::kF32), dims,
            {reinterpret_cast<const char*>(rope_freqs.data()), rope_freqs.size() * sizeof(float)});
        continue;
      }
      builder.add_tensor(name, is_norm ? norm_type : TensorType::kF16, dims);
    }
    extra(builder);
    const std::string bytes = builder.build();
    const auto file = model_file::parse_text(bytes);
    EXPECT_TRUE(file.ok()) << file.status().to_string();
    return describe(*file);
  }
  std::string error() const {
    const auto result = describe_it();
    return result.ok() ? "" : result.status().to_string();
  }
};

TEST(DescriptionTest, ReadsALlamaFile) {
  const auto d = LlamaFile().describe_it();
  ASSERT_TRUE(d.ok()) << d.status().to_string();
  EXPECT_EQ(d->architecture, "llama");
  EXPECT_EQ(d->name, "test.gguf");
  EXPECT_EQ(d->hidden, 32);
  EXPECT_EQ(d->layers, 2);
  EXPECT_EQ(d->heads, 4);
  EXPECT_EQ(d->kv_heads, 2);
  EXPECT_EQ(d->heads_per_kv(), 2);
  EXPECT_EQ(d->head_dim, 8);
  EXPECT_EQ(d->ffn, 48);
  EXPECT_EQ(d->vocab, 40);
  EXPECT_EQ(d->max_context, 128);
  EXPECT_EQ(d->norm_eps, 1e-5F);
  EXPECT_EQ(d->rope(0).base, 10000.0F);
  EXPECT_EQ(d->rope(0).dims, 8);
  EXPECT_TRUE(d->rope(0).interleaved);
  EXPECT_TRUE(d->tied);
}

TEST(DescriptionTest, ReadsOptionalKeys) {
  LlamaFile file;
  file.tensors["output.weight"] = {32, 40};
  file.numbers.erase("attention.head_count_kv");
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    file.tensors[layer + "attn_q.weight"] = {32, 64};
    file.tensors[layer + "attn_k.weight"] = {32, 64};
    file.tensors[layer + "attn_v.weight"] = {32, 64};
    file.tensors[layer + "attn_output.weight"] = {64, 32};
  }
  file.numbers["attention.key_length"] = 16;
  file.numbers["attention.value_length"] = 16;
  file.numbers["rope.dimension_count"] = 12;
  file.numbers["vocab_size"] = 40;
  file.extra = [](GgufBuilder& b) {
    b.add_f32("llama.rope.freq_base", 500000.0F)
        .add_string("general.name", "Tiny")
        .add_string("general.type", "model")
        .add_u32("llama.expert_count", 0)
        .add_f32("llama.rope.scaling.factor", 1.0F)
        .add_string("llama.rope.scaling.type", "none")
        .add_bool("llama.attention.causal", true);
  };
  const auto d = file.describe_it();
  ASSERT_TRUE(d.ok()) << d.status().to_string();
  EXPECT_EQ(d->name, "Tiny");
  EXPECT_EQ(d->kv_heads, 4);
  EXPECT_EQ(d->head_dim, 16);
  EXPECT_EQ(d->attention_scale, 0.25F);
  EXPECT_EQ(d->rope(0).dims, 12);
  EXPECT_EQ(d->rope(0).base, 500000.0F);
  EXPECT_FALSE(d->tied);
}

TEST(DescriptionTest, ReadsTheDefaultModel) {
  const auto file = ModelFile::open(BATON_SOURCE_DIR "/models/smollm2-135m-instruct-q4_1.gguf");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const auto d = describe(*file);
  ASSERT_TRUE(d.ok()) << d.status().to_string();
  EXPECT_EQ(d->heads, 9);
  EXPECT_EQ(d->kv_heads, 3);
  EXPECT_EQ(d->head_dim, 64);
  EXPECT_EQ(d->layers, 30);
  EXPECT_EQ(d->vocab, 49152);
  EXPECT_EQ(d->rope(0).base, 100000.0F);
  EXPECT_TRUE(d->tied);
}

TEST(DescriptionTest, RefusesOtherArchitecturesByName) {
  LlamaFile file;
  file.architecture = "gemma2";
  EXPECT_EQ(file.error(),
            "unsupported: test.gguf: architecture 'gemma2' is not supported; Baton runs: llama, "
            "qwen2, qwen3, gemma3");
}

TEST(DescriptionTest, RefusesWhatItDoesNotDoByNameAndValue) {
  const auto with = [](std::function<void(GgufBuilder&)> extra) {
    LlamaFile file;
    file.extra = std::move(extra);
    return file.error();
  };
  EXPECT_EQ(with([](GgufBuilder& b) { b.add_u32("llama.expert_count", 8); }),
            "unsupported: test.gguf: asks with 'llama.expert_count' = '8' for mixture of experts, "
            "which Baton does not do");
  EXPECT_EQ(
      with([](GgufBuilder& b) { b.add_string("llama.rope.scaling.type", "longrope"); }),
      "unsupported: test.gguf: has 'llama.rope.scaling.type' = 'longrope'; Baton does 'none', "
      "'linear', 'yarn' and 'llama3'");
  EXPECT_THAT(with([](GgufBuilder& b) { b.add_f32("llama.rope.scaling.yarn_ext_factor", 0.5F); }),
              HasSubstr("'llama.rope.scaling.yarn_ext_factor' = '0.5' for another ramp of YaRN"));
  EXPECT_THAT(with([](GgufBuilder& b) { b.add_f32("llama.final_logit_softcapping", 30.0F); }),
              HasSubstr("= '30' for soft-capped logits"));
  EXPECT_THAT(with([](GgufBuilder& b) { b.add_bool("llama.attention.causal", false); }),
              HasSubstr("= 'false' for attention that is not causal"));
  EXPECT_EQ(with([](GgufBuilder& b) { b.add_scalar<int32_t>("llama.novelty", 5, -3); }),
            "unsupported: test.gguf: has the key 'llama.novelty' = '-3', which Baton does not know "
            "for llama");
  EXPECT_THAT(with([](GgufBuilder& b) { b.add_array<float>("llama.list", 6, {1, 2}); }),
              HasSubstr("'llama.list' = 'an array of 2 f32'"));
  EXPECT_THAT(with([](GgufBuilder& b) { b.add_f32("adapter.lora.alpha", 16.0F); }),
              HasSubstr("has the key 'adapter.lora.alpha' = '16', which Baton does not know"));
  EXPECT_THAT(with([](GgufBuilder& b) { b.add_string("general.type", "adapter"); }),
              HasSubstr("has 'general.type' = 'adapter'; Baton reads 'model'"));
  EXPECT_THAT(with([](GgufBuilder& b) { b.add_u32("general.quantization_version", 1); }),
              HasSubstr("Baton reads '2'"));
}

TEST(DescriptionTest, RefusesTensorsItDoesNotUse) {
  const auto with = [](const std::string& name) {
    LlamaFile file;
    file.tensors[name] = {32};
    return file.error();
  };
  EXPECT_EQ(with("blk.0.attn_output.bias"),
            "unsupported: test.gguf: has the tensor 'blk.0.attn_output.bias' (a bias), which Baton "
            "does not use for llama");
  EXPECT_THAT(with("blk.0.attn_q.weight.lora_a"), HasSubstr("(an adapter)"));
  EXPECT_THAT(with("blk.0.post_ffw_norm.weight"), HasSubstr("(a norm after the layer)"));
  EXPECT_THAT(with("blk.0.ffn_gate_exps.weight"), HasSubstr("(mixture of experts)"));
  EXPECT_THAT(with("blk.1.attn_q_norm.weight"), HasSubstr("(normalised q and k)"));
  EXPECT_THAT(with("blk.2.attn_q.weight"), HasSubstr("has the tensor 'blk.2.attn_q.weight'"));
  EXPECT_THAT(with("blk.00.attn_q.weight"), HasSubstr("blk.00"));
  EXPECT_THAT(with("blk.99999999999.attn_q.weight"), HasSubstr("blk.99999999999"));
  EXPECT_THAT(with("blk.attn_q.weight"), HasSubstr("blk.attn_q"));
  EXPECT_THAT(with("blk.1"), HasSubstr("'blk.1'"));
  EXPECT_THAT(with("attn_q.weight"), HasSubstr("'attn_q.weight'"));
}

TEST(DescriptionTest, NamesMissingAndMisshapenTensors) {
  LlamaFile file;
  file.tensors.erase("blk.1.ffn_up.weight");
  EXPECT_EQ(file.error(), "invalid_argument: test.gguf: tensor 'blk.1.ffn_up.weight' is missing");
  file = LlamaFile();
  file.tensors["blk.1.ffn_up.weight"] = {48, 32};
  EXPECT_EQ(file.error(),
            "invalid_argument: test.gguf: tensor 'blk.1.ffn_up.weight' is [48, 32]; the metadata "
            "calls for [32, 48]");
  file = LlamaFile();
  file.tensors.erase("token_embd.weight");
  EXPECT_THAT(file.error(), HasSubstr("'token_embd.weight' is missing"));
  file = LlamaFile();
  file.norm_type = TensorType::kQ8_0;
  EXPECT_THAT(file.error(), HasSubstr("is Q8_0; norm weights and biases must be F32, F16 or BF16"));
  file.norm_type = TensorType::kBF16;
  EXPECT_EQ(file.error(), "");
}

TEST(DescriptionTest, RefusesNumbersThatContradict) {
  const auto with = [](const std::string& key, uint32_t value) {
    LlamaFile file;
    file.numbers[key] = value;
    return file.error();
  };
  EXPECT_THAT(with("attention.head_count_kv", 3), HasSubstr("4 query heads are no multiple of 3"));
  EXPECT_THAT(with("attention.head_count", 0), HasSubstr("is 0; it must be 1 to 4096"));
  EXPECT_THAT(with("attention.head_count", 6), HasSubstr("is no whole number"));
  EXPECT_THAT(with("attention.value_length", 4), HasSubstr("Baton needs them equal"));
  EXPECT_THAT(with("attention.key_length", 7), HasSubstr("an odd head dimension, 7"));
  EXPECT_THAT(with("block_count", 5000), HasSubstr("'llama.block_count' is 5000"));
  EXPECT_THAT(with("embedding_length", 1u << 30), HasSubstr("it must be 1 to 131072"));
  EXPECT_THAT(with("context_length", 0), HasSubstr("'llama.context_length' is 0"));
  EXPECT_THAT(with("rope.dimension_count", 10), HasSubstr("it must be even and at most 8"));
  EXPECT_THAT(with("rope.dimension_count", 3), HasSubstr("it must be even"));
  EXPECT_THAT(with("vocab_size", 41), HasSubstr("is 41, but the embedding has 40 rows"));
  LlamaFile file;
  file.numbers.erase("block_count");
  EXPECT_THAT(file.error(), HasSubstr("'llama.block_count' (u32) is missing"));
  file = LlamaFile();
  file.eps = 0.0F;
  EXPECT_THAT(file.error(), HasSubstr("between 0 and 1"));
  file = LlamaFile();
  file.extra = [](GgufBuilder& b) { b.add_f32("llama.rope.freq_base", 0.0F); };
  EXPECT_THAT(file.error(), HasSubstr("must be at least 1"));
  file.extra = [](GgufBuilder& b) {
    b.add_strings("tokenizer.ggml.tokens", std::vector<std::string>(41, "a"));
  };
  EXPECT_THAT(file.error(), HasSubstr("has 41 tokens, but the embedding has 40 rows"));
  file.extra = [](GgufBuilder& b) { b.add_array<uint32_t>("llama.rope.dimension_count", 4, {8}); };
  EXPECT_THAT(file.error(), HasSubstr("is an array of u32"));
}

TEST(DescriptionTest, ReadsScaledRope) {
  LlamaFile file;
  const auto rope = [&](std::function<void(GgufBuilder&)> extra) {
    file.extra = std::move(extra);
    const auto d = file.describe_it();
    EXPECT_TRUE(d.ok()) << d.status().to_string();
    EXPECT_EQ(d->ropes.size(), 1u);
    return d.ok() ? d->rope(0) : RopeDescription();
  };
  RopeDescription expected = {.dims = 8, .scaling = RopeScaling::kLinear, .factor = 2.5F};
  EXPECT_EQ(rope([](GgufBuilder& b) { b.add_f32("llama.rope.scaling.factor", 2.5F); }), expected);
  EXPECT_EQ(rope([](GgufBuilder& b) { b.add_f32("llama.rope.scale_linear", 2.5F); }), expected);
  EXPECT_EQ(rope([](GgufBuilder& b) {
              b.add_string("llama.rope.scaling.type", "linear")
                  .add_f32("llama.rope.scaling.factor", 0.0F);
            }),
            RopeDescription{.dims = 8});

  expected = {.dims = 8,
              .scaling = RopeScaling::kYarn,
              .factor = 4.0F,
              .original_context = 64,
              .beta_fast = 16.0F,
              .magnitude = 0.5F * yarn_magnitude(4.0F)};
  EXPECT_EQ(rope([](GgufBuilder& b) {
              b.add_string("llama.rope.scaling.type", "yarn")
                  .add_f32("llama.rope.scaling.factor", 4.0F)
                  .add_u32("llama.rope.scaling.original_context_length", 64)
                  .add_f32("llama.rope.scaling.attn_factor", 0.5F)
                  .add_f32("llama.rope.scaling.yarn_beta_fast", 16.0F);
            }),
            expected);

  expected = {.dims = 8,
              .scaling = RopeScaling::kLlama3,
              .factor = 8.0F,
              .original_context = 128,  // the context, where the file is silent
              .high_freq_factor = 2.0F};
  EXPECT_EQ(rope([](GgufBuilder& b) {
              b.add_string("llama.rope.scaling.type", "llama3")
                  .add_f32("llama.rope.scaling.factor", 8.0F)
                  .add_f32("llama.rope.scaling.high_freq_factor", 2.0F);
            }),
            expected);
}

TEST(DescriptionTest, RefusesRopeThatContradicts) {
  const auto with = [](std::function<void(GgufBuilder&)> extra) {
    LlamaFile file;
    file.extra = std::move(extra);
    return file.error();
  };
  EXPECT_EQ(with([](GgufBuilder& b) { b.add_f32("llama.rope.scaling.factor", -2.0F); }),
            "invalid_argument: test.gguf: 'llama.rope.scaling.factor' is -2; it must be at least "
            "0.00100000005 and at most 1000000");
  EXPECT_THAT(
      with([](GgufBuilder& b) {
        b.add_string("llama.rope.scaling.type", "none").add_f32("llama.rope.scaling.factor", 2.0F);
      }),
      HasSubstr("is 'none', but the factor is 2"));
  EXPECT_THAT(with([](GgufBuilder& b) {
                b.add_string("llama.rope.scaling.type", "llama3")
                    .add_f32("llama.rope.scaling.low_freq_factor", 4.0F);
              }),
              HasSubstr("is 4; it must be above the low one, 4"));
  EXPECT_THAT(
      with([](GgufBuilder& b) {
        b.add_string("llama.rope.scaling.type", "yarn").add_f32("llama.rope.freq_base", 1.0F);
      }),
      HasSubstr("YaRN needs a 'llama.rope.freq_base' above 1"));
}

TEST(DescriptionTest, ReadsDivisorsOfRope) {
  const auto with = [](const std::vector<float>& divisors) {
    LlamaFile file;
    file.tensors["rope_freqs.weight"] = {static_cast<int64_t>(divisors.size())};
    file.rope_freqs = divisors;
    return file.describe_it();
  };
  const auto d = with({1.0F, 1.0F, 2.5F, 32.0F});
  ASSERT_TRUE(d.ok()) << d.status().to_string();
  EXPECT_EQ(d->rope(1).divisors, (std::vector<float>{1.0F, 1.0F, 2.5F, 32.0F}));
  EXPECT_THAT(with({1.0F, 2.0F}).status().to_string(),
              HasSubstr("'rope_freqs.weight' is [2]; the metadata calls for [4, 1]"));
  EXPECT_THAT(with({1.0F, 1.0F, 0.0F, 1.0F}).status().to_string(),
              HasSubstr("'rope_freqs.weight' holds 0; divisors of RoPE must be"));
}

TEST(DescriptionTest, ReadsTheWindowOfAllLayers) {
  LlamaFile file;
  file.numbers["attention.sliding_window"] = 48;
  const auto d = file.describe_it();
  ASSERT_TRUE(d.ok()) << d.status().to_string();
  EXPECT_EQ(d->window(0), 48);
  EXPECT_EQ(d->window(1), 48);
  EXPECT_EQ(d->rope_index(1), 0);
  for (const uint32_t none : {0U, 128U, 4096U}) {  // no position of the context is outside
    file.numbers["attention.sliding_window"] = none;
    EXPECT_EQ(file.describe_it()->window(1), 0);
  }
  file.architecture = "qwen3";
  EXPECT_THAT(file.error(), HasSubstr("'qwen3.attention.sliding_window' = '4096' for a sliding"));
}

TEST(DescriptionTest, ReadsQwenFiles) {
  LlamaFile file;
  file.architecture = "qwen2";
  EXPECT_THAT(file.error(), HasSubstr("tensor 'blk.0.attn_q.bias' is missing"));
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    file.tensors[layer + "attn_q.bias"] = {32};
    file.tensors[layer + "attn_k.bias"] = {16};
    file.tensors[layer + "attn_v.bias"] = {16};
  }
  auto d = file.describe_it();
  ASSERT_TRUE(d.ok()) << d.status().to_string();
  EXPECT_FALSE(d->rope(0).interleaved);
  file.architecture = "llama";  // optional there
  EXPECT_EQ(file.error(), "");
  file.tensors.erase("blk.1.attn_v.bias");
  EXPECT_THAT(file.error(), HasSubstr("tensor 'blk.1.attn_v.bias' is missing"));
  file = LlamaFile();
  file.architecture = "qwen3";
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    file.tensors[layer + "attn_q_norm.weight"] = {8};
    file.tensors[layer + "attn_k_norm.weight"] = {8};
  }
  d = file.describe_it();
  ASSERT_TRUE(d.ok()) << d.status().to_string();
  EXPECT_FALSE(d->rope(0).interleaved);
  EXPECT_EQ(d->embedding_scale, 1.0F);
  file.tensors["blk.1.attn_k_norm.weight"] = {16};
  EXPECT_THAT(file.error(), HasSubstr("is [16]; the metadata calls for [8, 1]"));
}

LlamaFile gemma3_file(int layers) {
  LlamaFile file;
  file.architecture = "gemma3";
  file.numbers["block_count"] = static_cast<uint32_t>(layers);
  file.numbers["attention.sliding_window"] = 32;
  const auto llama = file.tensors;
  for (int layer = 0; layer < layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    for (const auto& [name, dims] : llama) {
      if (name.starts_with("blk.0.")) {
        file.tensors[prefix + name.substr(6)] = dims;
      }
    }
    file.tensors[prefix + "attn_q_norm.weight"] = {8};
    file.tensors[prefix + "attn_k_norm.weight"] = {8};
    file.tensors[prefix + "post_attention_norm.weight"] = {32};
    file.tensors[prefix + "post_ffw_norm.weight"] = {32};
  }
  return file;
}

TEST(DescriptionTest, ReadsAGemma3File) {
  LlamaFile file = gemma3_file(7);
  file.extra = [](GgufBuilder& b) {
    b.add_f32("gemma3.rope.freq_base", 1e6F)
        .add_string("gemma3.rope.scaling.type", "linear")
        .add_f32("gemma3.rope.scaling.factor", 8.0F)
        .add_f32("gemma3.final_logit_softcapping", 0.0F);
  };
  const auto d = file.describe_it();
  ASSERT_TRUE(d.ok()) << d.status().to_string();
  EXPECT_EQ(d->activation, kernels::Activation::kGeluTanh);
  EXPECT_EQ(d->embedding_scale, std::sqrt(32.0F));
  EXPECT_EQ(d->attention_scale, 1.0F / std::sqrt(8.0F));
  for (const int layer : {0, 4, 6}) {
    EXPECT_EQ(d->window(layer), 32);
    EXPECT_EQ(d->rope(layer), (RopeDescription{.dims = 8, .interleaved = false}));
  }
  EXPECT_EQ(d->window(5), 0);
  EXPECT_EQ(d->rope(5), (RopeDescription{.base = 1e6F,
                                         .dims = 8,
                                         .interleaved = false,
                                         .scaling = RopeScaling::kLinear,
                                         .factor = 8.0F}));
}

TEST(DescriptionTest, ReadsOtherPatternsOfGemma3) {
  LlamaFile file = gemma3_file(4);
  file.numbers["attention.sliding_window_pattern"] = 2;
  file.extra = [](GgufBuilder& b) {
    b.add_f32("gemma3.rope.freq_base_swa", 5000.0F).add_f32("gemma3.attention.scale", 0.25F);
  };
  auto d = file.describe_it();
  ASSERT_TRUE(d.ok()) << d.status().to_string();
  EXPECT_EQ(d->window(0), 32);
  EXPECT_EQ(d->window(1), 0);
  EXPECT_EQ(d->window(2), 32);
  EXPECT_EQ(d->rope(2).base, 5000.0F);
  EXPECT_EQ(d->attention_scale, 0.25F);

  file.numbers.erase("attention.sliding_window_pattern");
  file.extra = [](GgufBuilder& b) {
    b.add_array<uint8_t>("gemma3.attention.sliding_window_pattern", 7, {0, 1, 1, 0});
  };
  d = file.describe_it();
  ASSERT_TRUE(d.ok()) << d.status().to_string();
  EXPECT_EQ(d->window(0), 0);
  EXPECT_EQ(d->window(1), 32);
  EXPECT_EQ(d->window(3), 0);
  file.extra = [](GgufBuilder& b) {
    b.add_array<uint8_t>("gemma3.attention.sliding_window_pattern", 7, {0, 1});
  };
  EXPECT_THAT(file.error(), HasSubstr("is an array of 2 bool; it must be a number or an array of "
                                      "4 bool"));
  // A window that the context does not fill is none, but the layer keeps its RoPE.
  file = gemma3_file(2);
  file.numbers["attention.sliding_window"] = 512;
  d = file.describe_it();
  EXPECT_EQ(d->window(0), 0);
  EXPECT_EQ(d->rope_index(0), 1);
}

TEST(DescriptionTest, RefusesGemma3FilesThatLackOrAskForMore) {
  LlamaFile file = gemma3_file(2);
  file.numbers.erase("attention.sliding_window");
  EXPECT_THAT(file.error(), HasSubstr("'gemma3.attention.sliding_window' (u32) is missing"));
  file = gemma3_file(2);
  file.tensors.erase("blk.1.post_ffw_norm.weight");
  EXPECT_THAT(file.error(), HasSubstr("'blk.1.post_ffw_norm.weight' is missing"));
  file = gemma3_file(2);
  file.extra = [](GgufBuilder& b) { b.add_f32("gemma3.attn_logit_softcapping", 50.0F); };
  EXPECT_THAT(file.error(), HasSubstr("'gemma3.attn_logit_softcapping' = '50' for soft-capped"));
  file = gemma3_file(62);  // the size that does not say how it scales scores
  file.numbers["attention.key_length"] = 16;
  file.numbers["attention.value_length"] = 16;
  for (auto& [name, dims] : file.tensors) {
    if (name.ends_with("attn_q.weight") || name.ends_with("attn_output.weight")) {
      dims[name.ends_with("attn_q.weight") ? 1 : 0] = 64;
    } else if (name.ends_with("attn_k.weight") || name.ends_with("attn_v.weight")) {
      dims[1] = 32;
    } else if (name.ends_with("q_norm.weight") || name.ends_with("k_norm.weight")) {
      dims[0] = 16;
    }
  }
  EXPECT_EQ(file.describe_it()->attention_scale, 1.0F / std::sqrt(8.0F));
}

}  // namespace
}  // namespace baton::model
