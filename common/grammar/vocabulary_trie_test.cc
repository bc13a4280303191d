#include "common/grammar/vocabulary_trie.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace baton::grammar {
namespace {

TEST(VocabularyTrieTest, HoldsEachTokenOnceUnderItsBytes) {
  const std::vector<std::string> texts = {
      "b", "", "abc", "a", "ab", "b", std::string(300, 'x'), std::string("\0\xFF", 2)};
  const VocabularyTrie trie(static_cast<int>(texts.size()), [&](TokenId id) -> std::string_view {
    return texts[static_cast<size_t>(id)];
  });
  EXPECT_EQ(trie.vocab_size(), 8);
  std::vector<std::string> path(256);
  std::vector<int> seen(texts.size());
  const auto nodes = trie.nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    path[nodes[i].depth] = path[nodes[i].depth - size_t{1}] + static_cast<char>(nodes[i].byte);
    EXPECT_GT(nodes[i].end, i);
    EXPECT_LE(nodes[i].end, nodes.size());
    for (const TokenId id : trie.tokens_at(i)) {
      EXPECT_EQ(texts[static_cast<size_t>(id)], path[nodes[i].depth]);
      ++seen[static_cast<size_t>(id)];
    }
  }
  EXPECT_EQ(seen, (std::vector<int>{1, 0, 1, 1, 1, 1, 0, 1}));
  EXPECT_EQ(trie.bytes_of(2), "abc");
  EXPECT_EQ(trie.bytes_of(6), "");
  EXPECT_EQ(trie.bytes_of(-1), "");
  EXPECT_EQ(trie.bytes_of(8), "");
}

}  // namespace
}  // namespace baton::grammar
