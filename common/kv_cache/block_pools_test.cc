#include "common/kv_cache/block_pools.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>

namespace baton::kv_cache {
namespace {

constexpr int kBlock = 4;

// A full group and one of windows of 6 tokens: a query sees parts of at most 3 blocks.
BlockPools::Options two_groups(int blocks, int window_blocks) {
  return {.groups = {{.layers = 1}, {.kind = CacheKind::kWindow, .layers = 2, .window = 6}},
          .blocks = {blocks, window_blocks},
          .block_tokens = kBlock,
          .prefix_cache = true,
          .root = {7, 9}};
}

std::vector<TokenId> numbered(int count, TokenId first = 0) {
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// Tables of `tokens` tokens, published, of which the window has left the first blocks.
Leases held(BlockPools& pools, const std::vector<TokenId>& tokens) {
  const auto count = static_cast<int>(tokens.size());
  Leases tables;
  for (int g = 0; g < pools.groups(); ++g) {
    tables[static_cast<size_t>(g)] = pools.pool(g).allocate(pools.blocks_for(count)).value();
  }
  pools.publish(tokens, tables, 0);
  for (int g = 0; g < pools.groups(); ++g) {
    tables[static_cast<size_t>(g)].vacate_front(static_cast<size_t>(pools.first_block(g, count)));
  }
  return tables;
}

int cached(const BlockPools& pools, int g) { return pools.pool(g).counts().cached; }

TEST(BlockPoolsTest, CountsWhatAWindowNeeds) {
  const BlockPools pools(two_groups(8, 8));
  EXPECT_EQ(pools.first_block(0, 100), 0);
  EXPECT_EQ(pools.first_block(1, 5), 0);
  EXPECT_EQ(pools.first_block(1, 8), 0) << "the query at 8 sees 3..8";
  EXPECT_EQ(pools.first_block(1, 9), 1) << "the query at 9 sees 4..9";
  EXPECT_EQ(pools.most_blocks(0, 100, 1), 25);
  EXPECT_EQ(pools.most_blocks(1, 100, 1), 3);
  EXPECT_EQ(pools.most_blocks(1, 100, 8), 4) << "13 tokens from the last of a block on";
  EXPECT_EQ(pools.most_blocks(1, 7, 8), 2) << "never more than all of it";
}

TEST(BlockPoolsTest, BlocksThatAWindowLeftAreCacheAndThenFree) {
  BlockPools pools(two_groups(8, 8));
  {
    const Leases tables = held(pools, numbered(24));
    EXPECT_EQ(tables[0].held(), 6u);
    EXPECT_EQ(tables[1].size(), 6u);
    EXPECT_EQ(tables[1].held(), 2u) << "blocks 4 and 5 hold 19..24";
    EXPECT_EQ(tables[1].ids()[3], kNoBlock);
    EXPECT_EQ(cached(pools, 1), 4);
    EXPECT_EQ(pools.pool(1).available(), 6);
    EXPECT_DOUBLE_EQ(pools.usage(), 6.0 / 8) << "that of the fullest group";
  }
  EXPECT_EQ(cached(pools, 0), 6);
  EXPECT_EQ(cached(pools, 1), 6);
}

TEST(BlockPoolsTest, AHitNeedsOnlyTheBlocksOfTheWindow) {
  BlockPools pools(two_groups(8, 8));
  {
    const Leases tables = held(pools, numbered(24));
  }
  // The oldest are evicted first: blocks 0 and 1, and then there is one hit less than before.
  const BlockLease others = pools.pool(1).allocate(4).value();
  EXPECT_EQ(pools.peek(numbered(24), 24), 24);
  EXPECT_EQ(pools.peek(numbered(24), 15), 0) << "12 tokens need block 1";
  BlockPools::Hit hit = pools.match(numbered(30), 29);
  EXPECT_EQ(hit.tokens, 24);
  EXPECT_EQ(hit.blocks[0].held(), 6u);
  EXPECT_EQ(hit.blocks[1].size(), 6u);
  EXPECT_EQ(hit.blocks[1].held(), 2u);
  EXPECT_EQ(pools.stats().query_tokens, 30u);
  EXPECT_EQ(pools.stats().hit_tokens, 24u);
}

TEST(BlockPoolsTest, AHitNeedsBothGroups) {
  BlockPools pools(two_groups(8, 8));
  {
    const Leases tables = held(pools, numbered(24));
  }
  {
    // Of the full group the tail goes first: 16 tokens are left of it.
    const BlockLease others = pools.pool(0).allocate(4).value();
    EXPECT_EQ(pools.peek(numbered(24), 24), 16);
    EXPECT_EQ(pools.match(numbered(24), 24).blocks[1].held(), 2u);
  }
  const BlockLease others = pools.pool(1).allocate(8).value();
  EXPECT_EQ(pools.peek(numbered(24), 24), 0) << "nothing is left of the windows";
}

TEST(BlockPoolsTest, WindowsAloneNeedNoBeginning) {
  BlockPools::Options options = two_groups(8, 8);
  options.groups.erase(options.groups.begin());
  options.blocks = {6};
  BlockPools pools(options);
  {
    const Leases tables = held(pools, numbered(24));
  }
  const BlockLease others = pools.pool(0).allocate(3).value();
  EXPECT_EQ(pools.peek(numbered(24), 24), 24);
  EXPECT_EQ(pools.match(numbered(24), 24).blocks[0].held(), 2u);
}

TEST(BlockPoolsTest, WhatATransferFindsOfEachGroup) {
  BlockPools pools(two_groups(12, 12));
  {
    const Leases tables = held(pools, numbered(24));
  }
  // 30 tokens: of the window the blocks from 25 on are needed, and none of them is here.
  BlockPools::Parts parts = pools.match_parts(numbered(30), 30, kBlock);
  EXPECT_EQ(parts.tokens, (PerGroup<int>{24, 24}));
  EXPECT_EQ(parts.blocks[1].size(), 6u);
  EXPECT_EQ(parts.blocks[1].held(), 0u);
  // 26: blocks 5 and 6 are needed, 5 is here.
  parts = pools.match_parts(numbered(26), 26, kBlock);
  EXPECT_EQ(parts.tokens, (PerGroup<int>{24, 24}));
  EXPECT_EQ(parts.blocks[1].held(), 1u);
  parts = {};
  // Without any windows the full group's hit stands, and all of the window travels.
  const BlockLease others = pools.pool(1).allocate(12).value();
  parts = pools.match_parts(numbered(26), 26, kBlock);
  EXPECT_EQ(parts.tokens, (PerGroup<int>{24, 20}));
  EXPECT_EQ(pools.peek_parts(numbered(26), 26, kBlock), parts.tokens);
  EXPECT_EQ(pools.peek(numbered(26), 26), 0) << "to compute on from there it is not enough";
}

TEST(BlockPoolsTest, SharesAndTruncatesTablesWithEmptyPlaces) {
  BlockPools pools(two_groups(8, 8));
  Leases tables = held(pools, numbered(24));
  BlockLease copy = tables[1].share();
  EXPECT_EQ(copy.held(), 2u);
  tables[1].release();
  EXPECT_EQ(pools.pool(1).counts().active, 2);
  copy.truncate(5);
  EXPECT_EQ(copy.held(), 1u);
  copy.vacate_front(9);
  EXPECT_EQ(copy.size(), 9u);
  EXPECT_EQ(copy.held(), 0u);
  EXPECT_EQ(pools.pool(1).counts().active, 0);
  copy.append(pools.pool(1).allocate(1).value());
  EXPECT_EQ(copy.size(), 10u);
  EXPECT_EQ(copy.held(), 1u);
}

TEST(BlockPoolsTest, APartOfTheNextBlockIsFoundToBeCopied) {
  BlockPools pools({.groups = {{.layers = 1}},
                    .blocks = {8},
                    .block_tokens = kBlock,
                    .prefix_cache = true,
                    .root = {7, 9}});
  const std::vector<TokenId> prompt = numbered(14);
  std::vector<BlockId> ids;
  {
    const Leases tables = held(pools, prompt);
    ids.assign(tables[0].ids().begin(), tables[0].ids().end());
  }
  std::vector<TokenId> other = prompt;
  other[7] = 99;
  // After a hit of at most `found` tokens, whose references end with it.
  const auto part_of = [](BlockPools& of, const std::vector<TokenId>& tokens, int found, int most,
                          std::string_view salt = {}) {
    return of.match_part(tokens, of.match(tokens, found, salt), most);
  };
  {
    const BlockPools::Hit hit = pools.match(other, 4);
    EXPECT_EQ(hit.tokens, 4);
    const uint64_t whole = pools.stats().hit_tokens;
    const BlockPools::Part part = pools.match_part(other, hit, 14);
    EXPECT_EQ(part.tokens, 3);
    ASSERT_EQ(part.source.size(), 1u);
    EXPECT_EQ(part.source.ids()[0], ids[1]);
    EXPECT_EQ(pools.counts().active, 2);
    EXPECT_EQ(pools.stats().hit_tokens - whole, 3u);
  }
  EXPECT_EQ(pools.counts().active, 0);
  EXPECT_EQ(part_of(pools, prompt, 8, 10).tokens, 2) << "no more than is asked for";
  EXPECT_EQ(part_of(pools, numbered(3), 3, 3).tokens, 3) << "of the first block, too";
  EXPECT_EQ(part_of(pools, prompt, 12, 14).tokens, 0) << "what is not full is not cached";
  EXPECT_EQ(part_of(pools, prompt, 8, 8).tokens, 0);
  EXPECT_EQ(part_of(pools, other, 4, 14, "other tenant").tokens, 0);
  EXPECT_EQ(pools.counts().active, 0);

  BlockPools windows(two_groups(8, 8));
  (void)held(windows, prompt);
  EXPECT_EQ(part_of(windows, other, 4, 14).tokens, 0);
}

TEST(BlockPoolsTest, WithoutPrefixCacheNothingIsFound) {
  BlockPools::Options options = two_groups(8, 8);
  options.prefix_cache = false;
  BlockPools pools(options);
  {
    const Leases tables = held(pools, numbered(24));
  }
  EXPECT_EQ(pools.match(numbered(24), 24).tokens, 0);
  EXPECT_EQ(pools.match_parts(numbered(24), 24, kBlock).tokens, (PerGroup<int>{0, 16}));
}

// Whatever was published and evicted, a hit has every block that the query after it sees, and no
// longer prefix has.
TEST(BlockPoolsTest, FindsTheLongestPrefixThatAPlainSearchFinds) {
  std::mt19937_64 random(5);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); };
  int found = 0;
  for (int round = 0; round < 300; ++round) {
    BlockPools pools(two_groups(12, 12));
    for (int i = 0; i < 4; ++i) {
      std::vector<TokenId> tokens = numbered(4 + pick(32));
      std::fill(tokens.begin() + pick(static_cast<int>(tokens.size())), tokens.end(), pick(2));
      const Leases tables = held(pools, tokens);
    }
    const BlockLease evicted = pools.pool(1).allocate(pick(12)).value();
    const std::vector<TokenId> tokens = numbered(40);
    const int limit = pick(41);
    int longest = 0;
    for (int n = kBlock; n <= limit; n += kBlock) {
      const BlockPools::Parts parts =
          pools.match_parts(std::span(tokens).first(static_cast<size_t>(n)), n, kBlock);
      longest = parts.tokens == PerGroup<int>{n, n} ? n : longest;
    }
    const BlockPools::Hit hit = pools.match(tokens, limit);
    EXPECT_EQ(hit.tokens, longest);
    EXPECT_EQ(pools.peek(tokens, limit), longest);
    for (int i = pools.first_block(1, hit.tokens); i < hit.tokens / kBlock; ++i) {
      EXPECT_NE(hit.blocks[1].ids()[static_cast<size_t>(i)], kNoBlock);
    }
    found += hit.tokens > 0 ? 1 : 0;
  }
  EXPECT_GT(found, 50);
}

}  // namespace
}  // namespace baton::kv_cache
