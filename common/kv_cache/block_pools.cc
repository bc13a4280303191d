#include "common/kv_cache/block_pools.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/prefix_hash/prefix_hash.h"

namespace baton::kv_cache {
namespace {

std::span<const TokenId> at_most(std::span<const TokenId> tokens, int max_tokens) {
  return tokens.first(std::min(tokens.size(), static_cast<size_t>(std::max(max_tokens, 0))));
}

// Calls visit(index, hash, parent, tokens) for each full block, until it returns false.
template <typename Visit>
void for_each_block(const U128& root, std::span<const TokenId> tokens, int block_tokens,
                    const Visit& visit) {
  const auto size = static_cast<size_t>(block_tokens);
  U128 parent = root;
  for (size_t i = 0; (i + 1) * size <= tokens.size(); ++i) {
    const std::span<const TokenId> block = tokens.subspan(i * size, size);
    const U128 hash = prefix_hash::block_hash(parent, block);
    if (!visit(static_cast<int>(i), hash, parent, block)) {
      return;
    }
    parent = hash;
  }
}

}  // namespace

U128 cache_root(const U128& model_hash, std::string_view numerics, int segments) {
  return prefix_hash::root_hash(model_hash, numerics, segments, {});
}

BlockPools::BlockPools(const Options& options) : options_(options) {
  BATON_CHECK(!options.groups.empty() && options.groups.size() <= kMaxGroups &&
                  options.groups.size() == options.blocks.size(),
              "a number of blocks for each group");
  for (const int blocks : options.blocks) {
    pools_.push_back(
        std::make_unique<BlockPool>(BlockPool::Options{.blocks = blocks,
                                                       .block_tokens = options.block_tokens,
                                                       .prefix_cache = options.prefix_cache}));
  }
}

int BlockPools::most_blocks(int g, int tokens, int step) const {
  const int all = blocks_for(tokens);
  if (group(g).kind == CacheKind::kFull) {
    return all;
  }
  // What the step's first query sees before itself, and the step: n tokens that may begin inside a
  // block touch one block and those that the other n - 1 fill.
  const int n = group(g).window - 1 + step;
  return std::min(all, blocks_for(n - 1) + 1);
}

// ---------------------------------------------------------------- prefix cache

BlockPools::Found BlockPools::find_prefix(std::span<const TokenId> tokens,
                                          std::string_view tenant_salt) const {
  Found found;
  PerGroup<int> run{};  // of each group: blocks there that end with the one looked at
  int best = 0;
  const U128 root = prefix_hash::tenant_root(options_.root, tenant_salt);
  found.hash = root;
  for_each_block(root, tokens, options_.block_tokens,
                 [&](int i, const U128& hash, const U128& parent, std::span<const TokenId> block) {
                   const int end = (i + 1) * options_.block_tokens;
                   bool seen = true;  // all that the query at `end` sees
                   for (int g = 0; g < groups(); ++g) {
                     const auto at = static_cast<size_t>(g);
                     const BlockId id = pool(g).find(hash, parent, block);
                     found.tables[at].push_back(id);
                     run[at] = id == kNoBlock ? 0 : run[at] + 1;
                     seen = seen && run[at] >= i + 1 - first_block(g, end);
                     if (id == kNoBlock && group(g).kind == CacheKind::kFull) {
                       return false;
                     }
                   }
                   if (seen) {
                     best = i + 1;
                     found.hash = hash;
                   }
                   return true;
                 });
  for (int g = 0; g < groups(); ++g) {
    std::vector<BlockId>& table = found.tables[static_cast<size_t>(g)];
    table.resize(static_cast<size_t>(best));
    const int tokens_found = best * options_.block_tokens;
    std::fill_n(table.begin(), first_block(g, tokens_found), kNoBlock);
    found.tokens[static_cast<size_t>(g)] = tokens_found;
  }
  return found;
}

BlockPools::Found BlockPools::find_parts(std::span<const TokenId> tokens, int kv_tokens, int unit,
                                         std::string_view tenant_salt) const {
  const auto size = static_cast<size_t>(options_.block_tokens);
  const U128 root = prefix_hash::tenant_root(options_.root, tenant_salt);
  const std::vector<U128> hashes =
      prefix_hash::chain(root, at_most(tokens, kv_tokens), options_.block_tokens);
  Found found;
  for (int g = 0; g < groups(); ++g) {
    const auto first = static_cast<size_t>(first_block(g, kv_tokens));
    std::vector<BlockId>& table = found.tables[static_cast<size_t>(g)];
    table.assign(first, kNoBlock);
    for (size_t i = first; i < hashes.size(); ++i) {
      const U128& parent = i == 0 ? root : hashes[i - 1];
      const BlockId id = pool(g).find(hashes[i], parent, tokens.subspan(i * size, size));
      if (id == kNoBlock) {
        break;
      }
      table.push_back(id);
    }
    // A larger unit of the transfer is brought whole.
    const size_t whole =
        table.size() * size / static_cast<size_t>(unit) * static_cast<size_t>(unit) / size;
    table.resize(std::max(whole, first));
    found.tokens[static_cast<size_t>(g)] = static_cast<int>(table.size() * size);
  }
  return found;
}

Leases BlockPools::hold(Found& found) {
  Leases leases;
  for (int g = 0; g < groups(); ++g) {
    const auto at = static_cast<size_t>(g);
    leases[at] = pool(g).hold(std::move(found.tables[at]));
  }
  return leases;
}

BlockPools::Hit BlockPools::match(std::span<const TokenId> tokens, int max_tokens,
                                  std::string_view tenant_salt) {
  Hit hit;
  if (max_tokens <= 0) {
    return hit;  // no query
  }
  stats_.query_tokens += tokens.size();
  if (options_.prefix_cache) {
    Found found = find_prefix(at_most(tokens, max_tokens), tenant_salt);
    hit.tokens = found.tokens[0];
    hit.hash = found.hash;
    hit.blocks = hold(found);
  }
  stats_.hit_tokens += static_cast<uint64_t>(hit.tokens);
  return hit;
}

BlockPools::Part BlockPools::match_part(std::span<const TokenId> tokens, const Hit& hit,
                                        int max_tokens) {
  tokens = at_most(tokens, max_tokens);
  const auto begin = static_cast<size_t>(hit.tokens);
  if (!options_.prefix_cache || groups() > 1 || group(0).kind != CacheKind::kFull ||
      tokens.size() <= begin) {
    return {};
  }
  const size_t most = std::min(tokens.size() - begin, static_cast<size_t>(options_.block_tokens));
  const BlockPool::Beginning next = pool(0).find_beginning(hit.hash, tokens.subspan(begin, most));
  if (next.id == kNoBlock) {
    return {};
  }
  stats_.hit_tokens += static_cast<uint64_t>(next.tokens);
  return {pool(0).hold({next.id}), next.tokens};
}

int BlockPools::peek(std::span<const TokenId> tokens, int max_tokens,
                     std::string_view tenant_salt) const {
  return options_.prefix_cache ? find_prefix(at_most(tokens, max_tokens), tenant_salt).tokens[0]
                               : 0;
}

BlockPools::Parts BlockPools::match_parts(std::span<const TokenId> tokens, int kv_tokens, int unit,
                                          std::string_view tenant_salt) {
  Found found = find_parts(tokens, kv_tokens, unit, tenant_salt);
  Parts parts;
  parts.tokens = found.tokens;
  parts.blocks = hold(found);
  stats_.query_tokens += tokens.size();
  stats_.hit_tokens += parts.blocks[0].held() * static_cast<uint64_t>(options_.block_tokens);
  return parts;
}

PerGroup<int> BlockPools::peek_parts(std::span<const TokenId> tokens, int kv_tokens, int unit,
                                     std::string_view tenant_salt) const {
  return find_parts(tokens, kv_tokens, unit, tenant_salt).tokens;
}

void BlockPools::publish(std::span<const TokenId> tokens, const Leases& tables, size_t first_block,
                         std::string_view tenant_salt) {
  if (!options_.prefix_cache) {
    return;
  }
  const U128 root = prefix_hash::tenant_root(options_.root, tenant_salt);
  for_each_block(root, tokens, options_.block_tokens,
                 [&](int i, const U128& hash, const U128& parent, std::span<const TokenId> block) {
                   const auto place = static_cast<size_t>(i);
                   for (int g = 0; place >= first_block && g < groups(); ++g) {
                     const std::span<const BlockId> ids = tables[static_cast<size_t>(g)].ids();
                     BATON_CHECK(place < ids.size(), "every full block has a place");
                     if (ids[place] != kNoBlock) {
                       pool(g).enter(ids[place], hash, parent, block);
                     }
                   }
                   return true;
                 });
}

// ---------------------------------------------------------------- sums

BlockCounts BlockPools::counts() const {
  BlockCounts sum;
  for (const auto& pool : pools_) {
    const BlockCounts counts = pool->counts();
    sum.free += counts.free;
    sum.active += counts.active;
    sum.cached += counts.cached;
    sum.reserved += counts.reserved;
    sum.quarantined += counts.quarantined;
  }
  return sum;
}

int BlockPools::total() const {
  int sum = 0;
  for (const auto& pool : pools_) {
    sum += pool->total();
  }
  return sum;
}

int BlockPools::available() const {
  int sum = 0;
  for (const auto& pool : pools_) {
    sum += pool->available();
  }
  return sum;
}

double BlockPools::usage() const {
  double most = 0;
  for (const auto& pool : pools_) {
    most = std::max(most, static_cast<double>(pool->total() - pool->available()) / pool->total());
  }
  return most;
}

BlockPool::Events BlockPools::take_events(size_t limit) {
  for (size_t g = 1; g < pools_.size(); ++g) {
    (void)pools_[g]->take_events(0);
  }
  return pools_[0]->take_events(limit);
}

}  // namespace baton::kv_cache
