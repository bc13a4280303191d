#include "common/kv_cache/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "common/kv_cache/block_pools.h"

namespace baton::kv_cache {
namespace {

constexpr int kBlockTokens = 4;

BlockPools::Options options(int blocks) {
  return {.groups = {{.layers = 1}},
          .blocks = {blocks},
          .block_tokens = kBlockTokens,
          .prefix_cache = true,
          .root = {7, 9}};
}

// The pool of a model of full layers, with its prefix cache.
class CachedPool {
 public:
  explicit CachedPool(const BlockPools::Options& options) : pools_(options) {}
  BlockPool* operator->() { return &pools_.pool(0); }
  BlockPool& operator*() { return pools_.pool(0); }

  struct Hit {
    BlockLease blocks;
    int tokens = 0;
  };
  Hit match(const std::vector<TokenId>& tokens, int most, std::string_view salt = {}) {
    BlockPools::Hit hit = pools_.match(tokens, most, salt);
    return {std::move(hit.blocks[0]), hit.tokens};
  }
  int peek(const std::vector<TokenId>& tokens, std::string_view salt = {}) const {
    return pools_.peek(tokens, static_cast<int>(tokens.size()), salt);
  }
  void publish(const std::vector<TokenId>& tokens, const BlockLease& lease, size_t first_block,
               std::string_view salt = {}) {
    Leases tables;
    tables[0] = lease.share();
    pools_.publish(tokens, tables, first_block, salt);
  }
  BlockPools::CacheStats stats() const { return pools_.stats(); }

 private:
  BlockPools pools_;
};

std::vector<TokenId> tokens_from(int first, int count) {
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

BlockLease take(CachedPool& pool, int count) {
  Result<BlockLease> lease = pool->allocate(count);
  EXPECT_TRUE(lease.ok()) << lease.status().to_string();
  return std::move(lease).value();
}

void publish_and_release(CachedPool& pool, const std::vector<TokenId>& tokens) {
  const BlockLease lease = take(pool, pool->blocks_for(static_cast<int>(tokens.size())));
  pool.publish(tokens, lease, 0);
}

TEST(BlockPoolTest, ReturnsEveryBlockWhenLeaseDies) {
  CachedPool pool(options(8));
  {
    BlockLease lease = take(pool, 5);
    EXPECT_EQ(std::set(lease.ids().begin(), lease.ids().end()).size(), 5u);
    EXPECT_EQ(pool->counts().active, 5);
    BlockLease moved = std::move(lease);
    EXPECT_TRUE(lease.empty());
    EXPECT_EQ(moved.size(), 5u);
    moved.truncate(2);
    EXPECT_EQ(pool->available(), 6);
  }
  EXPECT_EQ(pool->counts().free, 8);
}

TEST(BlockPoolTest, RefusesMoreThanAvailableAndChangesNothing) {
  CachedPool pool(options(4));
  publish_and_release(pool, tokens_from(0, 8));
  const BlockLease lease = take(pool, 1);
  EXPECT_EQ(pool->allocate(4).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(pool->counts().cached, 2);
  EXPECT_EQ(pool->counts().free, 1);
  EXPECT_EQ(pool.peek(tokens_from(0, 8)), 8);
}

TEST(BlockPoolTest, RoundsBlocksUp) {
  CachedPool pool(options(1));
  EXPECT_EQ(pool->blocks_for(0), 0);
  EXPECT_EQ(pool->blocks_for(1), 1);
  EXPECT_EQ(pool->blocks_for(4), 1);
  EXPECT_EQ(pool->blocks_for(5), 2);
}

TEST(BlockPoolTest, FindsThePublishedPrefixInFullBlocks) {
  CachedPool pool(options(8));
  const std::vector<TokenId> prompt = tokens_from(0, 14);
  std::vector<BlockId> ids;
  {
    const BlockLease lease = take(pool, 4);
    ids.assign(lease.ids().begin(), lease.ids().end());
    pool.publish(prompt, lease, 0);
  }
  EXPECT_EQ(pool->counts().cached, 3);
  std::vector<TokenId> other = prompt;
  other[9] = 99;
  EXPECT_EQ(pool.peek(prompt), 12);
  EXPECT_EQ(pool.peek(other), 8);

  CachedPool::Hit hit = pool.match(prompt, 11);
  EXPECT_EQ(hit.tokens, 8);
  EXPECT_TRUE(std::ranges::equal(hit.blocks.ids(), std::span(ids).first(2)));
  EXPECT_TRUE(pool->shared(ids[0]));
  EXPECT_EQ(pool->counts().active, 2);
  EXPECT_EQ(pool.stats().query_tokens, 14u);
  EXPECT_EQ(pool.stats().hit_tokens, 8u);
}

TEST(BlockPoolTest, FindsTheBlockThatBeginsAlikeTheLongest) {
  CachedPool pool(options(16));
  const U128 root{7, 9};
  EXPECT_EQ(pool->find_beginning(root, tokens_from(0, 4)).id, kNoBlock);
  const std::vector<std::vector<TokenId>> contents = {
      {1, 2, 3, 4}, {1, 2, 5, 0}, {1, 9, 9, 9}, {2, 2, 2, 2}};
  std::vector<BlockLease> leases;
  for (size_t i = 0; i < contents.size(); ++i) {
    leases.push_back(take(pool, 2));
    pool->enter(leases[i].ids()[0], {1, i}, root, contents[i]);
    pool->enter(leases[i].ids()[1], {2, i}, {1, i}, contents[i]);  // of another parent
  }
  const auto expect = [&](std::vector<TokenId> tokens, size_t content, int equal) {
    const BlockPool::Beginning found = pool->find_beginning(root, tokens);
    EXPECT_EQ(found.tokens, equal);
    EXPECT_EQ(found.id, leases[content].ids()[0]);
  };
  expect({1, 2, 3, 9}, 0, 3);
  expect({1, 2, 3}, 0, 3);
  expect({1, 2, 4, 4}, 1, 2);  // the upper neighbour; the lower one has as many
  expect({1, 2, 5, 0}, 1, 4);
  expect({1, 3}, 2, 1);
  expect({2, 9, 9, 9}, 3, 1);
  EXPECT_EQ(pool->find_beginning(root, tokens_from(3, 4)).id, kNoBlock);
  EXPECT_EQ(pool->find_beginning({3, 3}, tokens_from(1, 4)).id, kNoBlock);
  leases.clear();
  pool->drop_cache();
  EXPECT_EQ(pool->find_beginning(root, contents[0]).id, kNoBlock);
}

TEST(BlockPoolTest, KeepsTenantsApart) {
  CachedPool pool(options(8));
  const std::vector<TokenId> prompt = tokens_from(0, 8);
  {
    const BlockLease lease = take(pool, 2);
    pool.publish(prompt, lease, 0, "acme");
  }
  EXPECT_EQ(pool.peek(prompt), 0);
  EXPECT_EQ(pool.peek(prompt, "acme"), 8);
  EXPECT_EQ(pool.match(prompt, 8, "other").tokens, 0);
}

TEST(BlockPoolTest, ContentThatIsThereIsLeftOut) {
  CachedPool pool(options(8));
  const std::vector<TokenId> prompt = tokens_from(0, 8);
  const BlockLease first = take(pool, 2);
  const BlockLease second = take(pool, 2);
  pool.publish(prompt, first, 0);
  pool.publish(prompt, second, 0);
  EXPECT_FALSE(pool->shared(second.ids()[0]));
  EXPECT_EQ(pool.match(prompt, 8).blocks.ids()[1], first.ids()[1]);
  EXPECT_EQ(pool->take_events(100).added.size(), 2u);
}

TEST(BlockPoolTest, EvictsTheLeastRecentlyUsedTailFirst) {
  CachedPool pool(options(4));
  publish_and_release(pool, tokens_from(0, 8));
  publish_and_release(pool, tokens_from(100, 8));
  EXPECT_EQ(pool.match(tokens_from(0, 8), 8).tokens, 8);  // used again: now the youngest
  const BlockLease lease = take(pool, 1);
  EXPECT_EQ(pool.peek(tokens_from(100, 8)), 4);
  EXPECT_EQ(pool.peek(tokens_from(0, 8)), 8);
  EXPECT_EQ(pool->evictions(), 1u);
}

TEST(BlockPoolTest, NeverEvictsAReferencedBlock) {
  CachedPool pool(options(3));
  publish_and_release(pool, tokens_from(0, 8));
  const CachedPool::Hit hit = pool.match(tokens_from(0, 8), 8);
  EXPECT_EQ(pool->available(), 1);
  EXPECT_FALSE(pool->allocate(2).ok());
  EXPECT_EQ(pool.peek(tokens_from(0, 8)), 8);
}

TEST(BlockPoolTest, SharesAndReplacesForCopyOnWrite) {
  CachedPool pool(options(4));
  const BlockLease first = take(pool, 2);
  BlockLease second = first.share();
  EXPECT_TRUE(pool->shared(first.ids()[1]));
  second.replace(1, take(pool, 1));
  EXPECT_NE(first.ids()[1], second.ids()[1]);
  EXPECT_FALSE(pool->shared(first.ids()[1]));
  EXPECT_EQ(pool->counts().active, 3);
}

TEST(BlockPoolTest, CountsReservedAndQuarantinedBlocks) {
  CachedPool pool(options(6));
  BlockLease ticket = take(pool, 3);
  pool->mark_reserved(ticket);
  EXPECT_EQ(pool->counts().reserved, 3);
  BlockLease committed = take(pool, 1);
  pool->mark_reserved(committed);
  pool->mark_active(committed);
  pool->mark_quarantined(ticket);
  EXPECT_EQ(pool->counts().quarantined, 3);
  EXPECT_EQ(pool->counts().active, 1);
  EXPECT_EQ(pool->available(), 2);
  ticket.release();
  EXPECT_EQ(pool->counts().quarantined, 0);
  EXPECT_EQ(pool->available(), 5);
}

TEST(BlockPoolTest, DroppedCacheIsFoundNoMore) {
  CachedPool pool(options(6));
  publish_and_release(pool, tokens_from(0, 8));
  const BlockLease held = take(pool, 1);
  pool.publish(tokens_from(50, 4), held, 0);
  pool->drop_cache();
  EXPECT_EQ(pool.peek(tokens_from(0, 8)), 0);
  EXPECT_EQ(pool.peek(tokens_from(50, 4)), 0);
  EXPECT_EQ(pool->counts().free, 5);
  EXPECT_EQ(pool->take_events(100).removed.size(), 3u);
}

TEST(BlockPoolTest, WithoutPrefixCacheNothingIsFound) {
  BlockPools::Options off = options(4);
  off.prefix_cache = false;
  CachedPool pool(off);
  publish_and_release(pool, tokens_from(0, 8));
  EXPECT_EQ(pool.match(tokens_from(0, 8), 8).tokens, 0);
  EXPECT_EQ(pool->counts().free, 4);
}

TEST(BlockPoolTest, EventsAreBoundedAndSaySo) {
  CachedPool pool(options(4));
  publish_and_release(pool, tokens_from(0, 16));
  BlockPool::Events events = pool->take_events(2);
  EXPECT_EQ(events.added.size(), 2u);
  EXPECT_TRUE(events.overflow);
  events = pool->take_events(2);
  EXPECT_TRUE(events.added.empty());
  EXPECT_FALSE(events.overflow);
}

// Drives pool and a plain model of it with random operations and compares all that can be seen.
class PoolModel {
 public:
  explicit PoolModel(uint64_t seed) : random_(seed), pool_(options(kBlocks)) {}

  void step() {
    switch (pick(7)) {
      case 0:
      case 1:
        start_sequence();
        break;
      case 2:
        drop_sequence();
        break;
      case 3:
        share_sequence();
        break;
      case 4:
        mark_sequence();
        break;
      case 5:
        truncate_sequence();
        break;
      case 6:
        if (pick(40) == 0) {
          pool_->drop_cache();
          added_.clear();
        }
        break;
    }
    check();
  }

 private:
  static constexpr int kBlocks = 24;
  enum class Mark { kActive, kReserved, kQuarantined };
  struct Sequence {
    std::vector<TokenId> tokens;
    BlockLease lease;
    Mark mark = Mark::kActive;
  };

  int pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

  // Few distinct contents, so that prefixes meet.
  std::vector<TokenId> random_tokens() {
    std::vector<TokenId> tokens;
    const int blocks = 1 + pick(5);
    for (int b = 0; b < blocks; ++b) {
      const TokenId value = pick(2);
      tokens.insert(tokens.end(), kBlockTokens, value);
    }
    tokens.resize(tokens.size() - static_cast<size_t>(pick(kBlockTokens)));
    return tokens;
  }

  void start_sequence() {
    std::vector<TokenId> tokens = random_tokens();
    const int peeked = pool_.peek(tokens);
    CachedPool::Hit hit = pool_.match(tokens, static_cast<int>(tokens.size()));
    EXPECT_EQ(hit.tokens, peeked);
    EXPECT_EQ(hit.tokens, static_cast<int>(hit.blocks.size()) * kBlockTokens);
    // A hit is content that some sequence has published.
    for (int t = kBlockTokens; t <= hit.tokens; t += kBlockTokens) {
      EXPECT_TRUE(added_.contains({tokens.begin(), tokens.begin() + t}));
    }
    const int more = pool_->blocks_for(static_cast<int>(tokens.size()) - hit.tokens);
    const bool fits = more <= pool_->available();
    Result<BlockLease> rest = pool_->allocate(more);
    ASSERT_EQ(rest.ok(), fits);
    if (!fits) {
      return;
    }
    const size_t first_new = hit.blocks.size();
    Sequence sequence;
    sequence.lease = std::move(hit.blocks);
    sequence.lease.append(std::move(rest).value());
    if (pick(3) > 0) {
      pool_.publish(tokens, sequence.lease, first_new);
      for (size_t t = kBlockTokens; t <= tokens.size(); t += kBlockTokens) {
        added_.insert({tokens.begin(), tokens.begin() + static_cast<long>(t)});
      }
    }
    sequence.tokens = std::move(tokens);
    sequences_.push_back(std::move(sequence));
  }

  void drop_sequence() {
    if (!sequences_.empty()) {
      std::swap(sequences_[static_cast<size_t>(pick(static_cast<int>(sequences_.size())))],
                sequences_.back());
      sequences_.pop_back();
    }
  }

  Sequence* some_sequence() {
    return sequences_.empty()
               ? nullptr
               : &sequences_[static_cast<size_t>(pick(static_cast<int>(sequences_.size())))];
  }

  void share_sequence() {
    Sequence* sequence = some_sequence();
    if (sequence != nullptr && sequence->mark == Mark::kActive) {
      Sequence sibling{sequence->tokens, sequence->lease.share(), Mark::kActive};
      sequences_.push_back(std::move(sibling));
    }
  }

  void mark_sequence() {
    Sequence* sequence = some_sequence();
    if (sequence == nullptr ||
        std::ranges::any_of(sequence->lease.ids(), [&](BlockId id) { return pool_->shared(id); })) {
      return;
    }
    switch (pick(3)) {
      case 0:
        pool_->mark_active(sequence->lease);
        sequence->mark = Mark::kActive;
        break;
      case 1:
        pool_->mark_reserved(sequence->lease);
        sequence->mark = Mark::kReserved;
        break;
      case 2:
        pool_->mark_quarantined(sequence->lease);
        sequence->mark = Mark::kQuarantined;
        break;
    }
  }

  void truncate_sequence() {
    Sequence* sequence = some_sequence();
    if (sequence != nullptr) {
      sequence->lease.truncate(static_cast<size_t>(pick(4)));
    }
  }

  void check() {
    std::map<BlockId, int> references;
    BlockCounts expected;
    for (const Sequence& sequence : sequences_) {
      for (const BlockId id : sequence.lease.ids()) {
        if (++references[id] == 1) {
          ++(sequence.mark == Mark::kActive     ? expected.active
             : sequence.mark == Mark::kReserved ? expected.reserved
                                                : expected.quarantined);
        }
      }
    }
    const BlockCounts counts = pool_->counts();
    ASSERT_EQ(counts.active, expected.active);
    ASSERT_EQ(counts.reserved, expected.reserved);
    ASSERT_EQ(counts.quarantined, expected.quarantined);
    ASSERT_EQ(counts.free + counts.cached, kBlocks - static_cast<int>(references.size()));
    ASSERT_EQ(pool_->available(), counts.free + counts.cached);
    for (const auto& [id, count] : references) {
      ASSERT_TRUE(count == 1 || pool_->shared(id));
    }
    // The router's view, kept from events alone, holds exactly what the index holds.
    const BlockPool::Events events = pool_->take_events(1000);
    ASSERT_FALSE(events.overflow);
    for (const U128& hash : events.added) {
      balance_[hash] += 1;
    }
    for (const U128& hash : events.removed) {
      balance_[hash] -= 1;
    }
    for (const auto& [hash, count] : balance_) {
      ASSERT_TRUE(count == 0 || count == 1);
    }
  }

  std::mt19937_64 random_;
  CachedPool pool_;
  std::vector<Sequence> sequences_;
  std::set<std::vector<TokenId>> added_;
  std::map<U128, int> balance_;
};

TEST(BlockPoolTest, AgreesWithAPlainModelUnderRandomUse) {
  for (const uint64_t seed : {1u, 2u, 3u, 4u}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PoolModel model(seed);
    for (int i = 0; i < 4000; ++i) {
      model.step();
      if (::testing::Test::HasFatalFailure() || ::testing::Test::HasNonfatalFailure()) {
        return;
      }
    }
  }
}

using BlockPoolDeathTest = ::testing::Test;
TEST(BlockPoolDeathTest, AbortsWhenALeaseOutlivesItsPool) {
  EXPECT_DEATH(
      {
        BlockLease lease;
        CachedPool pool(options(2));
        lease = take(pool, 1);
      },
      "outlives");
}

}  // namespace
}  // namespace baton::kv_cache
