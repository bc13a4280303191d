#include "common/prefix_hash/prefix_hash.h"

#include <xxhash.h>

#include <array>
#include <bit>
#include <cstring>
#include <memory>

#include "common/base/check.h"

namespace baton::prefix_hash {
namespace {

static_assert(std::endian::native == std::endian::little,
              "ids are hashed in memory order, which must be the wire order");

// One XXH3-128 over pieces of memory, fed in order.
class Hasher {
 public:
  Hasher() : state_(XXH3_createState()) {
    BATON_CHECK(state_ != nullptr, "out of memory");
    XXH3_128bits_reset(state_.get());
  }
  void add(const void* data, size_t bytes) {
    if (bytes > 0) {
      XXH3_128bits_update(state_.get(), data, bytes);
    }
  }
  void add(const U128& v) {
    const std::array<uint64_t, 2> words = {v.lo, v.hi};
    add(words.data(), sizeof(words));
  }
  // The length goes in first, so that no two lists of strings feed the same bytes.
  void add(std::string_view text) {
    const uint64_t size = text.size();
    add(&size, sizeof(size));
    add(text.data(), text.size());
  }
  U128 digest() const {
    const XXH128_hash_t h = XXH3_128bits_digest(state_.get());
    return U128{h.high64, h.low64};
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* s) const { XXH3_freeState(s); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace

U128 root_hash(const U128& model_hash, std::string_view numerics, int segments,
               std::string_view tenant_salt) {
  Hasher hasher;
  hasher.add(std::string_view("baton-kv-1"));
  hasher.add(model_hash);
  hasher.add(numerics);
  const auto segments_le = static_cast<int32_t>(segments);
  hasher.add(&segments_le, sizeof(segments_le));
  return tenant_root(hasher.digest(), tenant_salt);
}

U128 tenant_root(const U128& root, std::string_view tenant_salt) {
  if (tenant_salt.empty()) {
    return root;
  }
  Hasher hasher;
  hasher.add(std::string_view("baton-tenant-1"));
  hasher.add(root);
  hasher.add(tenant_salt);
  return hasher.digest();
}

U128 block_hash(const U128& parent, std::span<const TokenId> tokens) {
  // Blocks of up to 64 tokens are hashed from the stack in one call, which is several times faster
  // than a streaming state.
  constexpr size_t kStackTokens = 64;
  if (tokens.size() <= kStackTokens) {
    std::array<std::byte, sizeof(uint64_t) * 2 + kStackTokens * sizeof(TokenId)> bytes;
    const std::array<uint64_t, 2> words = {parent.lo, parent.hi};
    std::memcpy(bytes.data(), words.data(), sizeof(words));
    if (!tokens.empty()) {
      std::memcpy(bytes.data() + sizeof(words), tokens.data(), tokens.size_bytes());
    }
    const XXH128_hash_t h = XXH3_128bits(bytes.data(), sizeof(words) + tokens.size_bytes());
    return U128{h.high64, h.low64};
  }
  Hasher hasher;
  hasher.add(parent);
  hasher.add(tokens.data(), tokens.size_bytes());
  return hasher.digest();
}

std::vector<U128> chain(const U128& root, std::span<const TokenId> tokens, int block_tokens) {
  BATON_CHECK(block_tokens > 0, "a block holds at least one token");
  const auto size = static_cast<size_t>(block_tokens);
  std::vector<U128> hashes;
  hashes.reserve(tokens.size() / size);
  U128 parent = root;
  for (size_t begin = 0; begin + size <= tokens.size(); begin += size) {
    parent = block_hash(parent, tokens.subspan(begin, size));
    hashes.push_back(parent);
  }
  return hashes;
}

}  // namespace baton::prefix_hash
