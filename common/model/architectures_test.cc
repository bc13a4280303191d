#include "common/model/architectures.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace baton::model {
namespace {

TEST(ArchitecturesTest, TablesNameEachKeyTensorAndRoleOnce) {
  for (const Architecture& architecture : architectures()) {
    EXPECT_EQ(find_architecture(architecture.name), &architecture);
    std::set<std::string_view> keys;
    for (const KeyRule& rule : architecture.keys) {
      EXPECT_TRUE(keys.insert(rule.suffix).second) << rule.suffix;
      EXPECT_EQ(rule.neutral.empty(), rule.feature.empty()) << rule.suffix;
    }
    std::set<std::string> names;
    std::set<TensorRole> roles;
    for (const TensorRule& rule : architecture.tensors) {
      EXPECT_TRUE(names.insert(tensor_name(rule, 7)).second) << rule.name;
      EXPECT_TRUE(roles.insert(rule.role).second) << rule.name;
      EXPECT_EQ(&tensor_rule(architecture, rule.role), &rule);
    }
  }
}

TEST(ArchitecturesTest, NamesTensorsOfLayersAndOfTheModel) {
  const Architecture* llama = find_architecture("llama");
  ASSERT_NE(llama, nullptr);
  EXPECT_EQ(tensor_name(tensor_rule(*llama, TensorRole::kAttnQ), 3), "blk.3.attn_q.weight");
  EXPECT_EQ(tensor_name(tensor_rule(*llama, TensorRole::kOutputNorm), 3), "output_norm.weight");
  EXPECT_EQ(find_architecture("bert"), nullptr);
  EXPECT_EQ(architecture_names(), "llama, qwen2, qwen3, gemma3");
  const Architecture* gemma3 = find_architecture("gemma3");
  ASSERT_NE(gemma3, nullptr);
  EXPECT_TRUE(gemma3->has(TensorRole::kAttnPostNorm));
  EXPECT_FALSE(gemma3->has(TensorRole::kAttnQBias));
}

}  // namespace
}  // namespace baton::model
