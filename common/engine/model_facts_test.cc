#include "common/engine/model_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "common/model_file/testing/gguf_builder.h"

namespace baton::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kModels = std::string(BATON_SOURCE_DIR) + "/tests/data/models/";

TEST(ModelFactsTest, CountsTensorsByTypeMostBytesFirst) {
  const Result<ModelFacts> facts = model_facts(kModels + "tiny_kmix.gguf");
  ASSERT_TRUE(facts.ok()) << facts.status().message();
  EXPECT_EQ(facts->architecture, "llama");
  EXPECT_EQ(facts->name, "tiny_kmix");
  EXPECT_THAT(facts->refused, ElementsAre());
  EXPECT_EQ(facts->description.layers, 1);
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  for (size_t i = 0; i < facts->types.size(); ++i) {
    EXPECT_TRUE(i == 0 || facts->types[i].bytes <= facts->types[i - 1].bytes);
    tensors += facts->types[i].tensors;
    bytes += facts->types[i].bytes;
  }
  EXPECT_EQ(facts->types.size(), 4u);  // Q4_K Q5_K Q6_K F32
  EXPECT_EQ(tensors, facts->tensors);
  EXPECT_EQ(bytes, facts->bytes);
  EXPECT_GT(facts->parameters, facts->bytes);
}

TEST(ModelFactsTest, NamesEveryReasonForARefusal) {
  const std::string path =
      testing::TempDir() + "model_facts_test." + std::to_string(getpid()) + ".gguf";
  model_file::GgufBuilder builder;
  builder.add_string("general.architecture", "llama")
      .add_u32("llama.expert_count", 8)
      .add_f32("llama.attn_logit_softcapping", 50)
      .add_u32("unknown.key", 1);
  std::ofstream(path, std::ios::binary) << builder.build();
  const Result<ModelFacts> facts = model_facts(path);
  std::remove(path.c_str());
  ASSERT_TRUE(facts.ok());
  EXPECT_THAT(facts->refused,
              ElementsAre(HasSubstr("soft-capped attention"), HasSubstr("mixture of experts"),
                          HasSubstr("'unknown.key'"), HasSubstr("embedding_length")));
  EXPECT_FALSE(model_facts("no/such.gguf").ok());
}

TEST(ModelFactsTest, KvOfWindowsIsApart) {
  model::ModelDescription model;
  model.layers = 3;
  model.kv_heads = 2;
  model.head_dim = 8;
  EXPECT_EQ(kv_per_token(model).full, 3u * 64);
  EXPECT_EQ(kv_per_token(model).window, 0);
  model.attention = {{.window = 16}, {.window = 0}, {.window = 16}};
  const KvPerToken kv = kv_per_token(model);
  EXPECT_EQ(kv.full, 64u);
  EXPECT_EQ(kv.windows, 128u);
  EXPECT_EQ(kv.window_layers, 2);
  EXPECT_EQ(kv.window, 16);
}

TEST(ModelFactsTest, ProbesEveryThreadOfTheTeam) {
  device::TeamOptions team;
  team.cpus = {{-1, -1}};
  team.wait = device::WaitPolicy::kYield;
  const Result<model::MachineProbe> probe = probe_peaks(team, device::Isa::kScalar, 0, 1ms);
  ASSERT_TRUE(probe.ok()) << probe.status().message();
  EXPECT_GT(probe->flops, 0);
  EXPECT_GT(probe->read_bytes_per_s, 0);
}

}  // namespace
}  // namespace baton::engine
