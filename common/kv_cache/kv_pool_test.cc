#include "common/kv_cache/kv_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <set>

namespace baton::kv_cache {
namespace {

KvLayout small_layout(int block_tokens) {
  KvLayout layout;
  layout.groups = {{.layers = 3, .kv_heads = 5, .k_dim = 16, .v_dim = 16}};
  layout.block_tokens = block_tokens;
  return layout;
}

KvPool make(int block_tokens, HeadRange heads, int blocks) {
  Result<KvPool> pool = KvPool::create(small_layout(block_tokens), heads, {blocks});
  EXPECT_TRUE(pool.ok()) << pool.status().to_string();
  return std::move(pool).value();
}

TEST(KvPoolTest, GroupsTileTheWholePool) {
  const KvPool pool = make(64, {1, 4}, 7);
  EXPECT_EQ(pool.block_bytes(), size_t{3} * 64 * 2 * 16 * 2);
  EXPECT_EQ(pool.bytes(), pool.block_bytes() * 7 * 3);
  std::set<std::byte*> seen;
  for (int layer = 0; layer < 3; ++layer) {
    for (BlockId id = 0; id < 7; ++id) {
      for (int piece = 0; piece < 2 * 3 * 2; ++piece) {
        seen.insert(pool.group(layer, id, piece / 6 == 1, 1 + piece / 2 % 3, piece % 2));
      }
    }
  }
  ASSERT_EQ(seen.size(), pool.bytes() / pool.group_bytes());
  std::byte* expected = pool.layer_base(0);
  for (std::byte* group : seen) {
    EXPECT_EQ(group, expected);
    expected += pool.group_bytes();
  }
}

TEST(KvPoolTest, OrdersKeysBeforeValuesAndHeadsOutsideGroups) {
  const KvPool pool = make(64, {1, 4}, 2);
  std::byte* block = pool.block(2, 1);
  EXPECT_EQ(pool.group(2, 1, false, 1, 0), block);
  EXPECT_EQ(pool.group(2, 1, false, 1, 1), block + pool.group_bytes());
  EXPECT_EQ(pool.group(2, 1, false, 2, 0), block + 2 * pool.group_bytes());
  EXPECT_EQ(pool.group(2, 1, true, 1, 0), block + pool.block_bytes() / 2);
}

TEST(KvPoolTest, ALayerHasTheBlocksOfItsGroup) {
  KvLayout layout = small_layout(32);
  layout.groups.push_back(layout.groups.front());
  layout.groups[0].layers = 1;
  layout.groups[1].layers = 2;
  layout.groups[1].kind = CacheKind::kWindow;
  layout.groups[1].window = 40;
  layout.layer_groups = {1, 0, 1};
  const KvPool pool = KvPool::create(layout, {0, 5}, {7, 2}).value();
  EXPECT_EQ(pool.layers(), 3);
  EXPECT_EQ(pool.blocks(0), 7);
  EXPECT_EQ(pool.blocks(1), 2);
  EXPECT_EQ(pool.bytes(), pool.block_bytes() * (2 + 7 + 2));
  EXPECT_EQ(pool.layer_bytes(1), pool.block_bytes() * 7);
  EXPECT_EQ(pool.block(1, 0), pool.block(0, 1) + pool.block_bytes());
  EXPECT_EQ(pool.block(2, 0), pool.block(1, 6) + pool.block_bytes());
}

TEST(KvPoolTest, ZeroesValuesOfOneBlockOnly) {
  const KvPool pool = make(32, {0, 5}, 3);
  pool.fill(0xFFFF);
  for (int layer = 0; layer < 3; ++layer) {
    pool.zero_values(layer, 1);
  }
  for (int layer = 0; layer < 3; ++layer) {
    for (BlockId id = 0; id < 3; ++id) {
      for (size_t at = 0; at < pool.block_bytes(); ++at) {
        const bool cleaned = id == 1 && at >= pool.block_bytes() / 2;
        ASSERT_EQ(pool.block(layer, id)[at], std::byte(cleaned ? 0 : 0xFF));
      }
    }
  }
}

TEST(KvPoolTest, CopiesABlockInOneLayer) {
  const KvPool pool = make(32, {0, 5}, 3);
  for (int layer = 0; layer < 3; ++layer) {
    std::memset(pool.block(layer, 2), 10 + layer, pool.block_bytes());
  }
  pool.copy_block(1, 2, 0);
  EXPECT_EQ(std::memcmp(pool.block(1, 0), pool.block(1, 2), pool.block_bytes()), 0);
  EXPECT_EQ(pool.block(0, 0)[0], std::byte{0});
  EXPECT_EQ(pool.block(1, 1)[0], std::byte{0});
  EXPECT_EQ(pool.block(2, 0)[0], std::byte{0});
}

TEST(KvPoolTest, RefusesWhatCannotBeHad) {
  const KvLayout layout = small_layout(32);
  EXPECT_EQ(KvPool::create(layout, {0, 5}, {0}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(KvPool::create(layout, {0, 5}, {2'000'000'000}).status().code(),
            StatusCode::kResourceExhausted);
  KvLayout broken = layout;
  broken.block_tokens = 5;
  EXPECT_EQ(KvPool::create(broken, {0, 5}, {4}).status().code(), StatusCode::kInvalidArgument);
}

KvPool make_shared_pool(int blocks) {
  return std::move(
             KvPool::create(small_layout(32), {1, 4}, {blocks}, Touch::kNow, Backing::kShared))
      .value();
}

TEST(KvPoolTest, AnotherProcessCanMapASharedPool) {
  const KvPool pool = make_shared_pool(7);
  ASSERT_GE(pool.shared_fd(), 0);
  EXPECT_EQ(make(32, {1, 4}, 7).shared_fd(), -1);
  pool.fill(0x1234);
  const Result<KvPool> other = KvPool::attach(small_layout(32), {1, 4}, {7}, pool.shared_fd());
  ASSERT_TRUE(other.ok()) << other.status().to_string();
  EXPECT_NE(other->layer_base(0), pool.layer_base(0));
  EXPECT_EQ(std::memcmp(other->layer_base(0), pool.layer_base(0), pool.bytes()), 0);
  other->group(2, 6, true, 3, 0)[5] = std::byte{0x77};
  EXPECT_EQ(pool.group(2, 6, true, 3, 0)[5], std::byte{0x77});
  EXPECT_EQ(other->shared_fd(), -1) << "it lets nobody in";
}

TEST(KvPoolTest, TheFileOfASharedPoolKeepsItsSize) {
  const KvPool pool = make_shared_pool(7);
  EXPECT_NE(ftruncate(pool.shared_fd(), 4096), 0);
  EXPECT_NE(ftruncate(pool.shared_fd(), 64 << 20), 0);
}

TEST(KvPoolTest, AttachesOnlyWhatIsAPoolOfThatShape) {
  const KvPool pool = make_shared_pool(7);
  const auto attach = [](KvLayout layout, HeadRange heads, std::vector<int> blocks, int fd) {
    return KvPool::attach(layout, heads, blocks, fd).status().code();
  };
  const int fd = pool.shared_fd();
  EXPECT_EQ(attach(small_layout(32), {1, 4}, {7'000}, fd), StatusCode::kIncompatible);
  EXPECT_EQ(attach(small_layout(32), {1, 4}, {INT32_MAX}, fd), StatusCode::kIncompatible);
  EXPECT_EQ(attach(small_layout(32), {1, 4}, {0}, fd), StatusCode::kIncompatible);
  EXPECT_EQ(attach(small_layout(32), {1, 4}, {7, 7}, fd), StatusCode::kIncompatible);
  EXPECT_EQ(attach(small_layout(32), {1, 6}, {7}, fd), StatusCode::kIncompatible);
  EXPECT_EQ(attach(small_layout(32), {2, 2}, {7}, fd), StatusCode::kIncompatible);
  EXPECT_EQ(attach(small_layout(33), {1, 4}, {7}, fd), StatusCode::kIncompatible);
  const int unsealed = memfd_create("other", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(unsealed, 2 << 20), 0);
  EXPECT_EQ(attach(small_layout(32), {1, 4}, {7}, unsealed), StatusCode::kIncompatible)
      << "its owner could cut it off";
  close(unsealed);
  EXPECT_EQ(attach(small_layout(32), {1, 4}, {7}, -1), StatusCode::kIncompatible);
}

TEST(KvPoolTest, SaysWhenThereIsNoFileForASharedPool) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);  // an error instead
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Result<KvPool> pool =
      KvPool::create(small_layout(32), {1, 4}, {7}, Touch::kByOwner, Backing::kShared);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(pool.status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace baton::kv_cache
