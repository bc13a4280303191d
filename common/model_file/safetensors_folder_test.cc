#include "common/model_file/safetensors_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/model_file/testing/safetensors_builder.h"

namespace baton::model_file {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SafetensorsFolderTest : public ::testing::Test {
 protected:
  SafetensorsFolderTest()
      : folder_(fs::temp_directory_path() / ("safetensors_folder." + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
    write_config("llama");
  }
  ~SafetensorsFolderTest() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  void write_config(const std::string& type) const {
    write("config.json", R"({"model_type": ")" + type +
                             R"(", "hidden_size": 8, "intermediate_size": 8,
      "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
      "vocab_size": 3, "max_position_embeddings": 16, "rms_norm_eps": 1e-6,
      "tie_word_embeddings": true})");
  }
  static std::string rows(char first, int count, int columns) {
    std::string out;
    for (int row = 0; row < count; ++row) {
      out += std::string(static_cast<size_t>(2 * columns), static_cast<char>(first + row));
    }
    return out;
  }
  std::string path() const { return folder_.string(); }
  std::string error() const {
    const auto file = ModelFile::open(path());
    return file.ok() ? "" : file.status().to_string();
  }

  fs::path folder_;
};

TEST_F(SafetensorsFolderTest, HasTheTensorsOfTheGgufFile) {
  write("model.safetensors",
        SafetensorsBuilder()
            .add("model.embed_tokens.weight", "F16", {3, 8}, rows('a', 3, 8))
            .add("model.layers.0.self_attn.q_proj.weight", "F16", {8, 8}, rows('a', 8, 8))
            .add("model.layers.0.self_attn.v_proj.weight", "F16", {4, 8}, rows('a', 4, 8))
            .add("model.layers.0.self_attn.k_proj.bias", "F16", {4}, rows('a', 4, 1))
            .add("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {2}, std::string(8, 0))
            .add("model.layers.0.unknown.weight", "F16", {1}, "xx")
            .add("lm_head.weight", "F16", {3, 8}, rows('x', 3, 8))
            .build());
  const auto file = ModelFile::open(path() + "//");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->name(), path());
  EXPECT_EQ(*file->get_string("general.name"), folder_.filename().string());
  EXPECT_GT(file->identity().bytes, fs::file_size(folder_ / "model.safetensors"));
  std::vector<std::string> names;
  for (const TensorInfo& tensor : file->tensors()) {
    names.emplace_back(tensor.name);
  }
  // The head is tied, the frequencies follow from the config; what is unknown stays to be refused.
  EXPECT_THAT(names, ElementsAre("blk.0.attn_k.bias", "blk.0.attn_q.weight", "blk.0.attn_v.weight",
                                 "model.layers.0.unknown.weight", "token_embd.weight"));
  const TensorInfo& q = **file->get_tensor("blk.0.attn_q.weight");
  EXPECT_EQ(q.dims, (std::array<uint64_t, 4>{8, 8, 1, 1}));
  std::string order;
  for (uint64_t row = 0; row < q.rows(); ++row) {
    order += static_cast<char>(q.row(row)[0]);
  }
  EXPECT_EQ(order, "acbdegfh");
  const TensorInfo& bias = **file->get_tensor("blk.0.attn_k.bias");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bias.data.data()), 8), "aaccbbdd");
  EXPECT_EQ((*file->get_tensor("blk.0.attn_v.weight"))->halved_head_rows, 0u);
}

TEST_F(SafetensorsFolderTest, AddsOneToTheNormsOfGemma) {
  write_config("gemma3_text");
  const uint16_t half[] = {0x3800, 0xBC00, 0x0001};  // 0.5, -1, 2^-24
  const uint16_t brain[] = {0x3F00};
  write("model.safetensors",
        SafetensorsBuilder()
            .add("model.norm.weight", "F16", {3}, {reinterpret_cast<const char*>(half), 6})
            .add("model.layers.0.post_attention_layernorm.weight", "BF16", {1},
                 {reinterpret_cast<const char*>(brain), 2})
            .build());
  const auto file = ModelFile::open(path());
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const TensorInfo& norm = **file->get_tensor("output_norm.weight");
  EXPECT_EQ(norm.type, TensorType::kF32);
  std::vector<float> values(3);
  std::memcpy(values.data(), norm.data.data(), norm.data.size());
  EXPECT_THAT(values, ElementsAre(1.5F, 0.0F, 1.0F + 0x1p-24F));
  EXPECT_TRUE(file->find_tensor("blk.0.post_attention_norm.weight") != nullptr);
}

TEST_F(SafetensorsFolderTest, OpensTheShardsOfTheIndex) {
  write("one.safetensors", SafetensorsBuilder().add("model.norm.weight", "F16", {1}, "ab").build());
  write("two.safetensors",
        SafetensorsBuilder().add("model.embed_tokens.weight", "F16", {1, 1}, "cd").build());
  const auto index = [&](const std::string& map) {
    write("model.safetensors.index.json", "{\"metadata\": {}, \"weight_map\": {" + map + "}}");
    return error();
  };
  const std::string norm = "\"model.norm.weight\": \"one.safetensors\"";
  const std::string embed = "\"model.embed_tokens.weight\": \"two.safetensors\"";
  EXPECT_EQ(index(norm + "," + embed), "");
  EXPECT_EQ(ModelFile::open(path())->tensors().size(), 2u);
  EXPECT_EQ(index(norm + ", \"x\": \"three.safetensors\""),
            "not_found: " + path() + "/three.safetensors: no such file; " + path() +
                "/model.safetensors.index.json names it");
  EXPECT_THAT(index(norm + ", \"x\": \"two.safetensors\""),
              HasSubstr("two.safetensors: has the tensor 'model.embed_tokens.weight', which "
                        "model.safetensors.index.json does not name"));
  EXPECT_THAT(index(norm + "," + embed + ", \"x\": \"two.safetensors\""),
              HasSubstr("two.safetensors: tensor 'x' is missing"));
  EXPECT_THAT(
      index("\"model.norm.weight\": \"two.safetensors\"," + embed + ", \"y\": \"one.safetensors\""),
      HasSubstr("places elsewhere"));
  EXPECT_THAT(index("\"x\": \"../one.safetensors\""),
              HasSubstr("which is no .safetensors file of this folder"));
  EXPECT_THAT(index("\"x\": 3"), HasSubstr("lies in 3, which is no .safetensors file"));
  write("model.safetensors.index.json", "{}");
  EXPECT_THAT(error(), HasSubstr("has no 'weight_map'"));
  fs::remove(folder_ / "model.safetensors.index.json");
  EXPECT_THAT(error(), HasSubstr("has neither model.safetensors nor"));
}

TEST_F(SafetensorsFolderTest, NamesWhatIsMissing) {
  write("model.safetensors", SafetensorsBuilder().add("t", "F16", {1}, "ab").build());
  fs::remove(folder_ / "config.json");
  EXPECT_EQ(error(), "invalid_argument: " + path() +
                         ": has safetensors but no config.json; give the whole model folder");
  write("adapter_config.json", "{}");
  EXPECT_THAT(error(), HasSubstr("is an adapter (adapter_config.json), not a model"));
  write("config.json", "{");
  EXPECT_THAT(error(), HasSubstr(path() + "/config.json: is no JSON"));
  write_config("qwen3");
  write("model.safetensors", SafetensorsBuilder().add("t", "I64", {1}, "12345678").build());
  EXPECT_THAT(error(), HasSubstr("/model.safetensors: tensor 't' has dtype 'I64'"));
}

TEST(SafetensorsNameTest, NamesOfLayersAreTranslated) {
  FolderArchitecture gemma;
  gemma.norms_without_one = true;
  EXPECT_EQ(gguf_tensor_name("model.layers.12.mlp.up_proj.weight", {}), "blk.12.ffn_up.weight");
  EXPECT_EQ(gguf_tensor_name("model.layers.0.post_attention_layernorm.weight", {}),
            "blk.0.ffn_norm.weight");
  EXPECT_EQ(gguf_tensor_name("model.layers.0.pre_feedforward_layernorm.weight", gemma),
            "blk.0.ffn_norm.weight");
  for (const char* name : {"model.layers.3", "model.layers.3.", "x", "model.vision.weight",
                           "model.layers.0.pre_feedforward_layernorm.weight"}) {
    EXPECT_EQ(gguf_tensor_name(name, {}), name);
  }
}

}  // namespace
}  // namespace baton::model_file
