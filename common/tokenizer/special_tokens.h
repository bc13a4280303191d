#pragma once

// Finds special tokens in text: leftmost, and of those that begin at the same byte the longest.
//
// A trie over the token texts, entered only at bytes that begin one. Worst case O(text * longest
// token text); in practice one table lookup a byte.
//
// Threads: immutable after construction.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/ids.h"

namespace baton::tokenizer {

class SpecialTokenMatcher final {
 public:
  struct Match {
    size_t begin;
    size_t end;
    TokenId id;
  };

  SpecialTokenMatcher() : SpecialTokenMatcher(std::vector<std::pair<std::string, TokenId>>()) {}
  // Empty texts are ignored; of equal texts the first counts.
  explicit SpecialTokenMatcher(const std::vector<std::pair<std::string, TokenId>>& tokens);

  // The longest that begins at `begin` < text.size().
  std::optional<Match> match_at(std::string_view text, size_t begin) const;
  // The first match at or after `from`.
  std::optional<Match> find(std::string_view text, size_t from) const;

 private:
  struct Node {
    uint32_t first_child = 0;  // 0: none
    uint32_t next_sibling = 0;
    TokenId id = -1;
    char byte = 0;
  };
  uint32_t child(uint32_t node, char byte) const;

  std::vector<Node> nodes_;            // [0] is the root
  std::array<uint32_t, 256> roots_{};  // node by first byte; 0: no token begins so
};

}  // namespace baton::tokenizer
