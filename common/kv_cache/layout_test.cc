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
