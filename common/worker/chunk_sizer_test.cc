#include "common/worker/chunk_sizer.h"

#include <gtest/gtest.h>

namespace baton::worker {
namespace {

TEST(ChunkSizerTest, StartsCarefulAndWithinTheLimit) {
  EXPECT_EQ(ChunkSizer(100ms, 512).budget(), 128);
  EXPECT_EQ(ChunkSizer(100ms, 17).budget(), 17);
}

TEST(ChunkSizerTest, FollowsTheMeasuredRateInWholeGrains) {
  ChunkSizer sizer(100ms, 512);
  sizer.observe(100, 0.05);  // 2,000 tokens/s: 200 in the target
  EXPECT_EQ(sizer.budget(), 192);
  EXPECT_DOUBLE_EQ(sizer.tokens_per_second(), 2000);
  sizer.observe(400, 0.04);
  EXPECT_DOUBLE_EQ(sizer.tokens_per_second(), 2000 + 0.2 * 8000);
}

TEST(ChunkSizerTest, StaysBetweenOneGrainAndTheLimit) {
  ChunkSizer slow(100ms, 512);
  slow.observe(32, 10);
  EXPECT_EQ(slow.budget(), 32);
  ChunkSizer fast(100ms, 500);
  fast.observe(512, 1e-6);
  EXPECT_EQ(fast.budget(), 480);
  ChunkSizer narrow(100ms, 17);
  narrow.observe(64, 10);
  EXPECT_EQ(narrow.budget(), 17);
}

TEST(ChunkSizerTest, IgnoresSamplesThatSayLittle) {
  ChunkSizer sizer(100ms, 512);
  sizer.observe(8, 10);
  sizer.observe(100, 0);
  EXPECT_EQ(sizer.budget(), 128);
}

}  // namespace
}  // namespace baton::worker
