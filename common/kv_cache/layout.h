#pragma once

// How KV lies in memory, in a pool and on the wire.
//
// Layout `pairs32` (the CPU's own, tile-ready): a block is [K|V][kv head][group of 32 slots], a K
// group is [dim/2][32 slots][2], a V group [16 slot pairs][dim][2], values bf16. Heads lie outside
// slots, so that a range of heads of a block is contiguous within K and within V, and groups inside
// heads, so that blocks of 32 and of 64 tokens exchange whole groups.
// Layout `canonical`: [K|V][kv head][slot][dim] (equal to FlashInfer's HND pages); what unlike
// backends meet in.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace baton::kv_cache {

inline constexpr int kGroupTokens = 32;

enum class CacheKind : uint8_t {
  kFull = 0,    // a query sees all keys before it
  kWindow = 1,  // a query sees the last `window` keys, its own included
};  // compressed groups will be kinds of their own
enum class KvDtype : uint8_t { kBf16 = 0 };
enum class LayoutId : uint8_t { kPairs32 = 1, kCanonical = 2 };

// A cache has one group, or two: first the full layers, then those with a window.
inline constexpr int kMaxGroups = 2;

// Layers that share geometry and life time of their blocks.
struct CacheGroup {
  CacheKind kind = CacheKind::kFull;
  int layers = 0;
  int kv_heads = 0;  // of the whole model
  int k_dim = 0;
  int v_dim = 0;
  KvDtype dtype = KvDtype::kBf16;
  int window = 0;  // tokens; 0 for a full group

  // The first position that the query at `position`, and with it every later one, sees.
  int first_visible(int position) const {
    return kind == CacheKind::kFull || position < window ? 0 : position - window + 1;
  }
  friend bool operator==(const CacheGroup&, const CacheGroup&) = default;
};

struct KvLayout {
  // One of any kind, or a full and a window group; equal in heads, dimensions and dtype.
  std::vector<CacheGroup> groups;
  // The group of each layer of the model; empty when there is one group.
  std::vector<uint8_t> layer_groups;
  int block_tokens = 32;  // power of two, multiple of 32
  LayoutId id = LayoutId::kPairs32;

  int group_count() const { return static_cast<int>(groups.size()); }
  int layers() const;  // of all groups
  int group_of(int layer) const {
    return layer_groups.empty() ? 0 : layer_groups[static_cast<size_t>(layer)];
  }
  // Bytes of K and V of one token in one layer, `heads` heads (roofline's KVtok / layers).
  size_t token_bytes(int heads) const;
  size_t block_bytes(int heads) const { return token_bytes(heads) * block_tokens; }
};
Status validate(const KvLayout& layout);

// The contiguous range of the model's KV heads that a rank holds.
struct HeadRange {
  int begin = 0;
  int end = 0;
  int count() const { return end - begin; }
  friend bool operator==(const HeadRange&, const HeadRange&) = default;
};

}  // namespace baton::kv_cache
