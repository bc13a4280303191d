#include "common/prefix_hash/prefix_hash.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace baton::prefix_hash {
namespace {

std::vector<TokenId> iota_tokens(int count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 100);
  return tokens;
}

const U128 kModel{1, 2};

// The values cross the wire (KV events, placement), so they are part of the protocol.
TEST(PrefixHashTest, ValuesAreFixed) {
  const U128 root = root_hash(kModel, "inv-1:split512:1", 1, "");
  EXPECT_EQ(to_hex(root), "13068d9d93ba2a57ad7eca2f728249f2");
  EXPECT_EQ(to_hex(block_hash(root, iota_tokens(32))), "80c43cc70463f66506933ad72888f16d");
  EXPECT_EQ(to_hex(block_hash(root, iota_tokens(128))), "2cf3a2306d8efc1ec1a8fd82e6b35fcb");
}

TEST(PrefixHashTest, ChainsFullBlocksOnly) {
  const U128 root = root_hash(kModel, "n", 1, "");
  const std::vector<TokenId> tokens = iota_tokens(79);
  const std::vector<U128> hashes = chain(root, tokens, 16);
  ASSERT_EQ(hashes.size(), 4u);
  U128 parent = root;
  for (size_t i = 0; i < hashes.size(); ++i) {
    parent = block_hash(parent, std::span(tokens).subspan(i * 16, 16));
    EXPECT_EQ(hashes[i], parent);
  }
  EXPECT_TRUE(chain(root, std::span(tokens).first(15), 16).empty());
}

TEST(PrefixHashTest, OneChangedTokenChangesEveryLaterBlock) {
  const U128 root = root_hash(kModel, "n", 1, "");
  std::vector<TokenId> tokens = iota_tokens(128);
  const std::vector<U128> before = chain(root, tokens, 32);
  tokens[40] += 1;
  const std::vector<U128> after = chain(root, tokens, 32);
  EXPECT_EQ(before[0], after[0]);
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_NE(before[i], after[i]);
  }
}

TEST(PrefixHashTest, EveryPartOfTheSaltCounts) {
  const std::set<U128> roots = {root_hash(kModel, "n", 1, ""),  root_hash(U128{1, 3}, "n", 1, ""),
                                root_hash(kModel, "m", 1, ""),  root_hash(kModel, "n", 2, ""),
                                root_hash(kModel, "n", 1, "a"), root_hash(kModel, "n", 1, "b")};
  EXPECT_EQ(roots.size(), 6u);
}

TEST(PrefixHashTest, TenantRootComposes) {
  const U128 root = root_hash(kModel, "n", 1, "");
  EXPECT_EQ(tenant_root(root, ""), root);
  EXPECT_EQ(tenant_root(root, "acme"), root_hash(kModel, "n", 1, "acme"));
}

}  // namespace
}  // namespace baton::prefix_hash
