#include "common/engine/cache_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton::engine {
namespace {

using testing::HasSubstr;

// As Gemma 3 270M, but with one KV head of 64: 18 layers, 3 of them full, windows of 512 tokens.
model::ModelDescription gemma() {
  model::ModelDescription model;
  model.hidden = 64;
  model.layers = 18;
  model.heads = 4;
  model.kv_heads = 1;
  model.head_dim = 64;
  model.ffn = 128;
  model.vocab = 320;
  model.max_context = 32'768;
  for (int layer = 0; layer < model.layers; ++layer) {
    model.attention.push_back({.window = layer % 6 == 5 ? 0 : 512});
  }
  return model;
}

Result<std::vector<int>> blocks_of(const model::ModelDescription& model,
                                   const EngineOptions& options) {
  BATON_ASSIGN_OR_RETURN(const kv_cache::KvLayout layout, cache_layout(model, 32));
  BATON_ASSIGN_OR_RETURN(const model::SegmentPlan plan, model::SegmentPlan::create(model, 1, 1));
  return cache_blocks(options, layout, plan, model.max_context);
}

EngineOptions of_bytes(uint64_t bytes) {
  EngineOptions options;
  options.kv_bytes = bytes;
  return options;
}
EngineOptions of_blocks(int blocks) {
  EngineOptions options;
  options.blocks = blocks;
  return options;
}

constexpr uint64_t kLayerBlock = 32 * 2 * 64 * 2;  // bytes of a block in one layer

TEST(CacheShapeTest, LayersWithAWindowAreAGroup) {
  const kv_cache::KvLayout layout = cache_layout(gemma(), 32).value();
  ASSERT_EQ(layout.groups.size(), 2u);
  EXPECT_EQ(layout.groups[0].layers, 3);
  EXPECT_EQ(layout.groups[1].layers, 15);
  EXPECT_EQ(layout.groups[1].window, 512);
  EXPECT_EQ(layout.group_of(5), 0);
  EXPECT_EQ(layout.group_of(6), 1);
}

TEST(CacheShapeTest, OneKindOfLayersIsOneGroup) {
  model::ModelDescription model = gemma();
  model.attention.clear();
  EXPECT_EQ(cache_layout(model, 32).value().groups.size(), 1u);
  EXPECT_EQ(blocks_of(model, of_blocks(77)).value(), std::vector<int>{77});
  EXPECT_EQ(blocks_of(model, of_bytes(10 * 18 * kLayerBlock + 5)).value(), std::vector<int>{10});
  EXPECT_EQ(blocks_of(model, of_bytes(5)).status().code(), StatusCode::kInvalidArgument);
  model.attention.assign(18, {.window = 64});
  const kv_cache::KvLayout layout = cache_layout(model, 32).value();
  ASSERT_EQ(layout.groups.size(), 1u);
  EXPECT_EQ(layout.groups[0].kind, kv_cache::CacheKind::kWindow);
  EXPECT_EQ(blocks_of(model, of_bytes(10 * 18 * kLayerBlock)).value(), std::vector<int>{10});
  EXPECT_EQ(blocks_of(model, of_blocks(4)).value(), std::vector<int>{4});
  EXPECT_THAT(blocks_of(model, of_blocks(3)).status().message(), HasSubstr("expected 4.."));
}

TEST(CacheShapeTest, RefusesWindowsOfTwoSizes) {
  model::ModelDescription model = gemma();
  model.attention[7].window = 256;
  EXPECT_EQ(cache_layout(model, 32).status().code(), StatusCode::kUnsupported);
}

// 4 windows are 64 blocks of full layers, and 17 of the windows'.
TEST(CacheShapeTest, SharesMemoryOutForSequencesOfFourWindows) {
  const uint64_t sequence = (64 * 3 + 17 * 15) * kLayerBlock;
  EXPECT_EQ(blocks_of(gemma(), of_bytes(10 * sequence)).value(), (std::vector<int>{640, 170}));
  EXPECT_EQ(blocks_of(gemma(), of_blocks(640)).value(), (std::vector<int>{640, 170}));
  model::ModelDescription model = gemma();
  model.max_context = 256;  // less than a window: as many of each
  EXPECT_EQ(blocks_of(model, of_bytes(100 * 18 * kLayerBlock)).value(),
            (std::vector<int>{100, 100}));
}

TEST(CacheShapeTest, KeepsAWindowAtLeast) {
  EXPECT_EQ(blocks_of(gemma(), of_blocks(40)).value(), (std::vector<int>{40, 18}));
  EXPECT_EQ(blocks_of(gemma(), of_blocks(10)).value(), (std::vector<int>{10, 10}));
  const uint64_t least = 18 * 18 * kLayerBlock;
  EXPECT_EQ(blocks_of(gemma(), of_bytes(least)).value(), (std::vector<int>{18, 18}));
  EXPECT_THAT(blocks_of(gemma(), of_bytes(least - 1)).status().message(),
              HasSubstr("do not hold one window"));
  EngineOptions given = of_blocks(640);
  given.window_blocks = 30;
  EXPECT_EQ(blocks_of(gemma(), given).value(), (std::vector<int>{640, 30}));
}

}  // namespace
}  // namespace baton::engine
