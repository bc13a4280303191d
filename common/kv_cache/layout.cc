#include "common/kv_cache/layout.h"

#include <bit>

namespace baton::kv_cache {
namespace {

// Far above any model, and small enough that no product below can overflow 63 bits.
constexpr int kMaxLayers = 1 << 12;
constexpr int kMaxHeads = 1 << 12;
constexpr int kMaxDim = 1 << 14;
constexpr int kMaxBlockTokens = 1 << 12;

Status out_of_range(const char* what, int value, int low, int high) {
  return invalid_argument("kv layout: " + std::string(what) + " is " + std::to_string(value) +
                          ", expected " + std::to_string(low) + ".." + std::to_string(high));
}

Status validate(const CacheGroup& group) {
  if (group.kind != CacheKind::kFull || group.dtype != KvDtype::kBf16) {
    return unsupported("kv layout: only full attention groups of bf16 are supported");
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

}  // namespace

size_t KvLayout::token_bytes(int heads) const {
  const CacheGroup& group = groups.front();
  return static_cast<size_t>(heads) * (group.k_dim + group.v_dim) * sizeof(uint16_t);
}

Status validate(const KvLayout& layout) {
  if (layout.groups.size() != 1) {
    return unsupported("kv layout: " + std::to_string(layout.groups.size()) +
                       " cache groups, expected 1");
  }
  BATON_RETURN_IF_ERROR(validate(layout.groups.front()));
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
