#pragma once

// The chained 128-bit hash of KV blocks, the same in router and workers: the hash of a full block
// covers its parent's hash and its own tokens, so equal hashes mean equal prefixes. XXH3-128 over
// (parent, tokens as little-endian int32). The first parent is made of the salt, which names
// everything else that KV depends on.
//
// Pure functions, safe from any thread.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/ids.h"

namespace baton::prefix_hash {

// Model hash, numerics id, number of reduction segments, tenant salt.
U128 root_hash(const U128& model_hash, std::string_view numerics, int segments,
               std::string_view tenant_salt);
// The root of one tenant: tenant_root(root_hash(m, n, s, ""), t) == root_hash(m, n, s, t), and the
// root itself for an empty salt.
U128 tenant_root(const U128& root, std::string_view tenant_salt);
U128 block_hash(const U128& parent, std::span<const TokenId> tokens);
// The hashes of all full blocks of `tokens`.
std::vector<U128> chain(const U128& root, std::span<const TokenId> tokens, int block_tokens);

}  // namespace baton::prefix_hash
