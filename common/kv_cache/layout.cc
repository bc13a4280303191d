#include "common/kv_cache/layout.h"

#include <bit>

namespace baton::kv_cache {
namespace {

// Far above any model, and small enough that no product below can overflow 63 bits.
constexpr int kMaxLayers = 1 << 12;
constexpr int kMaxHeads = 1 << 12;
constexpr int kMaxDim = 1 << 14;
constexpr int kMaxBlockTokens = 1 << 12;
constexpr int kMaxWindow = 1 << 28;

Status out_of_range(const char* what, int value, int low, int high) {
  return invalid_argument("kv layout: " + std::string(what) + " is " + std::to_string(value) +
                          ", expected " + std::to_string(low) + ".." + std::to_string(high));
}

Status validate(const CacheGroup& group) {
  if ((group.kind != CacheKind::kFull && group.kind != CacheKind::kWindow) ||
      group.dtype != KvDtype::kBf16) {
    return unsupported("kv layout: only full and window groups of bf16 are supported");
  }
  if ((group.kind == CacheKind::kWindow) != (group.window > 0) || group.window < 0 ||
      group.window > kMaxWindow) {
    return invalid_argument("kv layout: a window of " + std::to_string(group.window) +
                            " tokens in a group of kind " +
                            std::to_string(static_cast<int>(group.kind)));
  }
  if (group.layers < 1 || group.layers > kMaxLayers) {
    return out_of_range("layers", group.layers, 1, kMaxLayers);
  }
  if (group.kv_heads < 1 || group.kv_heads > kMaxHeads) {
    return out_of_range("kv_heads", group.kv_heads, 1, kMaxHeads);
  }
  for (const int dim : {group.k_dim, group.v_dim}) {
    if (dim < 2 || dim > kMaxDim || dim % 2 != 0) {
      return invalid_argument("kv layout: a head dimension is " + std::to_string(dim) +
                              ", expected an even number in 2.." + std::to_string(kMaxDim));
    }
  }
  if (group.k_dim != group.v_dim) {
    return unsupported("kv layout: k_dim " + std::to_string(group.k_dim) + " and v_dim " +
                       std::to_string(group.v_dim) + " differ");
  }
  return Status();
}

// Two groups fit each other, and every layer is in one of them.
Status validate_groups(const KvLayout& layout) {
  const CacheGroup& first = layout.groups.front();
  const CacheGroup& last = layout.groups.back();
  if (layout.groups.size() == 2 &&
      (first.kind != CacheKind::kFull || last.kind != CacheKind::kWindow ||
       first.kv_heads != last.kv_heads || first.k_dim != last.k_dim || first.v_dim != last.v_dim)) {
    return unsupported(
        "kv layout: two groups must be a full one, then one of windows, of equal "
        "heads and dimensions");
  }
  std::vector<int> layers(layout.groups.size(), 0);
  for (const uint8_t group : layout.layer_groups) {
    if (group >= layers.size()) {
      return invalid_argument("kv layout: a layer of group " + std::to_string(group));
    }
    ++layers[group];
  }
  for (size_t g = 0; g < layers.size(); ++g) {
    const bool counted = layout.groups.size() == 2 || !layout.layer_groups.empty();
    if (counted && layers[g] != layout.groups[g].layers) {
      return invalid_argument("kv layout: group " + std::to_string(g) + " has " +
                              std::to_string(layers[g]) + " layers, expected " +
                              std::to_string(layout.groups[g].layers));
    }
  }
  return Status();
}

}  // namespace

int KvLayout::layers() const {
  int sum = 0;
  for (const CacheGroup& group : groups) {
    sum += group.layers;
  }
  return sum;
}

size_t KvLayout::token_bytes(int heads) const {
  const CacheGroup& group = groups.front();
  return static_cast<size_t>(heads) * (group.k_dim + group.v_dim) * sizeof(uint16_t);
}

Status validate(const KvLayout& layout) {
  if (layout.groups.empty() || layout.groups.size() > kMaxGroups) {
    return unsupported("kv layout: " + std::to_string(layout.groups.size()) +
                       " cache groups, expected 1 or 2");
  }
  for (const CacheGroup& group : layout.groups) {
    BATON_RETURN_IF_ERROR(validate(group));
  }
  BATON_RETURN_IF_ERROR(validate_groups(layout));
  const int tokens = layout.block_tokens;
  if (tokens < kGroupTokens || tokens > kMaxBlockTokens ||
      !std::has_single_bit(static_cast<unsigned>(tokens))) {
    return invalid_argument("kv layout: block_tokens is " + std::to_string(tokens) +
                            ", expected a power of two in 32.." + std::to_string(kMaxBlockTokens));
  }
  if (layout.id != LayoutId::kPairs32 && layout.id != LayoutId::kCanonical) {
    return unsupported("kv layout: id " + std::to_string(static_cast<int>(layout.id)) +
                       " is unknown");
  }
  return Status();
}

}  // namespace baton::kv_cache
