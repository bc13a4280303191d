#include "common/kv_cache/layout.h"

#include <gtest/gtest.h>

namespace baton::kv_cache {
namespace {

KvLayout smollm() {
  KvLayout layout;
  layout.groups = {{.layers = 30, .kv_heads = 3, .k_dim = 64, .v_dim = 64}};
  return layout;
}

TEST(KvLayoutTest, CountsBytesOfTokensAndBlocks) {
  const KvLayout layout = smollm();
  EXPECT_TRUE(validate(layout).ok());
  EXPECT_EQ(layout.token_bytes(3), 768u);
  EXPECT_EQ(layout.token_bytes(1), 256u);
  EXPECT_EQ(layout.block_bytes(3), 768u * 32);
}

// Layers 0, 1, 3 have windows, layer 2 sees all.
KvLayout windows() {
  KvLayout layout = smollm();
  layout.groups.push_back(layout.groups.front());
  layout.groups[0].layers = 1;
  layout.groups[1].layers = 3;
  layout.groups[1].kind = CacheKind::kWindow;
  layout.groups[1].window = 512;
  layout.layer_groups = {1, 1, 0, 1};
  return layout;
}

TEST(KvLayoutTest, HoldsAGroupOfWindowsToo) {
  KvLayout layout = windows();
  EXPECT_TRUE(validate(layout).ok()) << validate(layout).to_string();
  EXPECT_EQ(layout.layers(), 4);
  EXPECT_EQ(layout.group_of(2), 0);
  EXPECT_EQ(layout.group_of(3), 1);
  EXPECT_EQ(layout.groups[0].first_visible(9999), 0);
  EXPECT_EQ(layout.groups[1].first_visible(511), 0);
  EXPECT_EQ(layout.groups[1].first_visible(512), 1);
  layout.groups.erase(layout.groups.begin());
  layout.layer_groups.clear();
  EXPECT_TRUE(validate(layout).ok()) << "windows alone";
}

TEST(KvLayoutTest, RefusesGroupsThatDoNotFitEachOther) {
  KvLayout layout = windows();
  layout.layer_groups[0] = 0;
  EXPECT_EQ(validate(layout).code(), StatusCode::kInvalidArgument) << "another number of layers";
  layout.layer_groups[0] = 2;
  EXPECT_EQ(validate(layout).code(), StatusCode::kInvalidArgument) << "of no group";
  layout.layer_groups.clear();
  EXPECT_EQ(validate(layout).code(), StatusCode::kInvalidArgument) << "which layers?";
  layout = windows();
  layout.groups[1].kv_heads = 1;
  EXPECT_EQ(validate(layout).code(), StatusCode::kUnsupported);
  layout = windows();
  std::swap(layout.groups[0], layout.groups[1]);
  EXPECT_EQ(validate(layout).code(), StatusCode::kUnsupported);
  for (const int window : {-1, 0, 1 << 30}) {
    layout = windows();
    layout.groups[1].window = window;
    EXPECT_EQ(validate(layout).code(), StatusCode::kInvalidArgument) << window;
  }
  layout = smollm();
  layout.groups[0].window = 64;
  EXPECT_EQ(validate(layout).code(), StatusCode::kInvalidArgument) << "a full group has none";
}

TEST(KvLayoutTest, RefusesWhatItCannotHold) {
  KvLayout layout = smollm();
  layout.groups.push_back(layout.groups.front());
  EXPECT_EQ(validate(layout).code(), StatusCode::kUnsupported);
  layout.groups.clear();
  EXPECT_EQ(validate(layout).code(), StatusCode::kUnsupported);

  for (const int tokens : {-32, 0, 16, 33, 48, 1 << 20}) {
    layout = smollm();
    layout.block_tokens = tokens;
    EXPECT_EQ(validate(layout).code(), StatusCode::kInvalidArgument) << tokens;
  }
  for (const int dim : {-2, 0, 63, 1 << 20}) {
    layout = smollm();
    layout.groups[0].k_dim = layout.groups[0].v_dim = dim;
    EXPECT_EQ(validate(layout).code(), StatusCode::kInvalidArgument) << dim;
  }
  layout = smollm();
  layout.groups[0].v_dim = 128;
  EXPECT_EQ(validate(layout).code(), StatusCode::kUnsupported);
  layout = smollm();
  layout.groups[0].kv_heads = 0;
  EXPECT_EQ(validate(layout).code(), StatusCode::kInvalidArgument);
  layout = smollm();
  layout.groups[0].layers = 1 << 30;
  EXPECT_EQ(validate(layout).code(), StatusCode::kInvalidArgument);
  layout = smollm();
  layout.groups[0].kind = static_cast<CacheKind>(7);
  EXPECT_EQ(validate(layout).code(), StatusCode::kUnsupported);
  layout = smollm();
  layout.id = static_cast<LayoutId>(9);
  EXPECT_EQ(validate(layout).code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace baton::kv_cache
