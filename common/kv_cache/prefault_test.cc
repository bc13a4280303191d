#include "common/kv_cache/prefault.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <vector>

namespace baton::kv_cache {
namespace {

constexpr size_t kPage = 4096;

std::vector<KvPool> make_pools(int count, int blocks, Touch touch,
                               Backing backing = Backing::kPrivate) {
  KvLayout layout;
  layout.groups = {{.layers = 3, .kv_heads = 4, .k_dim = 64, .v_dim = 64}};
  std::vector<KvPool> pools;
  for (int i = 0; i < count; ++i) {
    Result<KvPool> pool = KvPool::create(layout, {0, 4}, {blocks}, touch, backing);
    EXPECT_TRUE(pool.ok()) << pool.status().to_string();
    pools.push_back(std::move(pool).value());
  }
  return pools;
}

size_t missing_pages(const KvPool& pool) {
  std::vector<unsigned char> there((pool.bytes() + kPage - 1) / kPage);
  EXPECT_EQ(mincore(pool.layer_base(0), pool.bytes(), there.data()), 0);
  size_t missing = 0;
  for (const unsigned char page : there) {
    missing += page & 1 ? 0 : 1;
  }
  return missing;
}

TEST(PrefaulterTest, TouchesEveryPageOfEveryPool) {
  const SteadyClock clock;
  const std::vector<KvPool> pools = make_pools(2, 150, Touch::kByOwner);
  EXPECT_GT(missing_pages(pools[1]), 0u);
  Prefaulter prefaulter(pools, {.delay = 0s, .rest = 0}, clock);
  ASSERT_TRUE(prefaulter.wait_done(clock.now() + 60s));
  EXPECT_EQ(missing_pages(pools[0]), 0u);
  EXPECT_EQ(missing_pages(pools[1]), 0u);
}

TEST(PrefaulterTest, LeavesWhatIsWrittenMeanwhileAlone) {
  const SteadyClock clock;
  const std::vector<KvPool> pools = make_pools(1, 100, Touch::kByOwner);
  Prefaulter prefaulter(pools, {.delay = 0s, .rest = 0}, clock);
  pools[0].fill(0x1234);
  ASSERT_TRUE(prefaulter.wait_done(clock.now() + 60s));
  for (int layer = 0; layer < 3; ++layer) {
    const auto* values = reinterpret_cast<const uint16_t*>(pools[0].layer_base(layer));
    for (size_t i = 0; i < pools[0].bytes() / 3 / sizeof(uint16_t); ++i) {
      ASSERT_EQ(values[i], 0x1234);
    }
  }
}

TEST(PrefaulterTest, GathersSharedPoolsWithoutChangingThem) {
  const SteadyClock clock;
  const std::vector<KvPool> pools = make_pools(1, 100, Touch::kByOwner, Backing::kShared);
  pools[0].fill(0x1234);
  Prefaulter prefaulter(pools, {.delay = 0s, .rest = 0}, clock);
  ASSERT_TRUE(prefaulter.wait_done(clock.now() + 60s));
  EXPECT_EQ(missing_pages(pools[0]), 0u);
  const auto* values = reinterpret_cast<const uint16_t*>(pools[0].layer_base(0));
  for (size_t i = 0; i < pools[0].bytes() / sizeof(uint16_t); ++i) {
    ASSERT_EQ(values[i], 0x1234);
  }
}

TEST(PrefaulterTest, WaitsForAPauseBetweenSteps) {
  const SteadyClock clock;
  const std::vector<KvPool> pools = make_pools(1, 150, Touch::kByOwner);
  const size_t all = missing_pages(pools[0]);
  std::atomic<bool> computing{true};
  Prefaulter prefaulter(
      pools,
      {.delay = 0s, .rest = 0, .computing = [&] { return computing.load(); }, .patience = 1h},
      clock);
  EXPECT_FALSE(prefaulter.wait_done(clock.now() + 30ms));
  EXPECT_EQ(missing_pages(pools[0]), all);
  computing = false;
  ASSERT_TRUE(prefaulter.wait_done(clock.now() + 60s));
  EXPECT_EQ(missing_pages(pools[0]), 0u);
}

TEST(PrefaulterTest, StepsWithoutPausesDelayItOnly) {
  const SteadyClock clock;
  const std::vector<KvPool> pools = make_pools(1, 150, Touch::kByOwner);
  Prefaulter prefaulter(
      pools, {.delay = 0s, .rest = 0, .computing = [] { return true; }, .patience = 1ms}, clock);
  ASSERT_TRUE(prefaulter.wait_done(clock.now() + 60s));
  EXPECT_EQ(missing_pages(pools[0]), 0u);
}

TEST(PrefaulterTest, EndsWithoutFinishing) {
  const SteadyClock clock;
  const std::vector<KvPool> pools = make_pools(1, 2000, Touch::kByOwner);
  const TimePoint begin = clock.now();
  {
    // It would rest for minutes.
    Prefaulter prefaulter(pools, {.delay = 0s, .rest = 1'000'000}, clock);
    EXPECT_FALSE(prefaulter.wait_done(clock.now() + 1ms));
  }
  {
    const Prefaulter waiting(pools, {.delay = 1h, .rest = 0}, clock);
  }
  EXPECT_LT(clock.now() - begin, 20s);
}

TEST(PrefaulterTest, PoolsAreThereAtOnceUnlessTheOwnerTouchesThem) {
  EXPECT_EQ(missing_pages(make_pools(1, 150, Touch::kNow)[0]), 0u);
}

}  // namespace
}  // namespace baton::kv_cache
