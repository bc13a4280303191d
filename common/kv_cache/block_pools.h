#pragma once

// The block pools of a worker, one per cache group, and the prefix cache over them. A sequence has
// a block table in each group. All tables count blocks from position 0; that of a window group is
// empty where no query that is still to come can see (CacheGroup::first_visible).
//
// Every full block of a prefix has one chained hash, whatever the group. A prefix of n tokens is
// found when the full group has all its blocks and the window group those that the query at
// position n sees; the others are not needed.
//
// Owned and used by one thread, the worker loop.

#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "common/kv_cache/block_pool.h"
#include "common/kv_cache/layout.h"

namespace baton::kv_cache {

// One value, lease, table for each group; what is beyond the cache's groups stays as made.
template <typename T>
using PerGroup = std::array<T, kMaxGroups>;
using Leases = PerGroup<BlockLease>;

// The root of a worker's cache: what KV depends on besides the tokens (prefix_hash::root_hash).
U128 cache_root(const U128& model_hash, std::string_view numerics, int segments);

class BlockPools {
 public:
  struct Options {
    std::vector<CacheGroup> groups;
    std::vector<int> blocks;  // of each group
    int block_tokens = 32;
    bool prefix_cache = true;
    U128 root;  // cache_root(); salts given below are applied to it
  };
  explicit BlockPools(const Options& options);

  int groups() const { return static_cast<int>(pools_.size()); }
  const CacheGroup& group(int g) const { return options_.groups[static_cast<size_t>(g)]; }
  BlockPool& pool(int g) { return *pools_[static_cast<size_t>(g)]; }
  const BlockPool& pool(int g) const { return *pools_[static_cast<size_t>(g)]; }
  int block_tokens() const { return options_.block_tokens; }
  int blocks_for(int tokens) const { return pool(0).blocks_for(tokens); }

  // The first place of a table that is not empty once `tokens` tokens have KV.
  int first_block(int g, int tokens) const {
    return group(g).first_visible(tokens) / options_.block_tokens;
  }
  // How many blocks of a group a sequence holds at the most while it grows to `tokens` tokens in
  // steps of up to `step` tokens.
  int most_blocks(int g, int tokens, int step) const;

  // The longest cached prefix in whole blocks, at most `max_tokens` tokens, with one reference on
  // each block that it needs. Counts query and hit tokens.
  struct Hit {
    Leases blocks;
    int tokens = 0;
    U128 hash;  // of its last block, or what the first one's is chained to
  };
  Hit match(std::span<const TokenId> tokens, int max_tokens, std::string_view tenant_salt = {});
  // What match() leaves: a cached block that begins as the sequence goes on after the hit, with one
  // reference on it, and how many tokens of it may be copied (Sequence::copy_part), so that the
  // prefix has at most `max_tokens`; none in a cache with windows. Counts hit tokens.
  struct Part {
    BlockLease source;
    int tokens = 0;
  };
  Part match_part(std::span<const TokenId> tokens, const Hit& hit, int max_tokens);
  // How many tokens match() would find, without taking references or counting.
  int peek(std::span<const TokenId> tokens, int max_tokens,
           std::string_view tenant_salt = {}) const;

  // What is here of a sequence whose first `kv_tokens` tokens a transfer completes: of a full group
  // the longest prefix in multiples of `unit` tokens, of a window group the blocks that follow each
  // other from first_block(kv_tokens) on. `tokens[g]` is where the transfer of the group begins.
  struct Parts {
    Leases blocks;
    PerGroup<int> tokens{};
  };
  Parts match_parts(std::span<const TokenId> tokens, int kv_tokens, int unit,
                    std::string_view tenant_salt = {});
  PerGroup<int> peek_parts(std::span<const TokenId> tokens, int kv_tokens, int unit,
                           std::string_view tenant_salt = {}) const;

  // Enters the full blocks of `tokens` into the index, from place `first_block` of the tables on,
  // in every group whose table has them. O(tokens).
  void publish(std::span<const TokenId> tokens, const Leases& tables, size_t first_block,
               std::string_view tenant_salt = {});

  struct CacheStats {
    uint64_t query_tokens = 0, hit_tokens = 0;
  };
  CacheStats stats() const { return stats_; }
  // Sums over the groups.
  BlockCounts counts() const;
  int total() const;
  int available() const;
  // The share of the blocks that sequences and transfers hold, of the group that is fullest.
  double usage() const;
  // Of the full group, where there is one: the router's hints.
  BlockPool::Events take_events(size_t limit);

 private:
  struct Found {
    PerGroup<std::vector<BlockId>> tables;
    PerGroup<int> tokens{};
    U128 hash;  // as of Hit; find_prefix() alone
  };
  Found find_prefix(std::span<const TokenId> tokens, std::string_view tenant_salt) const;
  Found find_parts(std::span<const TokenId> tokens, int kv_tokens, int unit,
                   std::string_view tenant_salt) const;
  Leases hold(Found& found);

  Options options_;
  std::vector<std::unique_ptr<BlockPool>> pools_;
  CacheStats stats_;
};

}  // namespace baton::kv_cache
