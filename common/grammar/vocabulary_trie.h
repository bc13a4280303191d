#pragma once

// The tokens of a vocabulary as a tree over their bytes, in depth-first order, so that all tokens
// with a common beginning are looked at, or left out, together.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"

namespace baton::grammar {

// Immutable after construction; safe from any number of threads. About 30 bytes a token.
class VocabularyTrie {
 public:
  struct Node {
    uint8_t byte = 0;
    uint8_t depth = 0;        // 1 for the first byte of a token
    uint32_t end = 0;         // index after its subtree
    uint32_t tokens_end = 0;  // of tokens_: its own begin where those of the node before end
  };
  static constexpr size_t kMaxTokenBytes = 255;

  // `bytes_of` gives what a token adds to the text: empty for tokens that no text may contain
  // (control tokens, unused ones), which are left out, as are those of more than kMaxTokenBytes.
  VocabularyTrie(int vocab_size, const std::function<std::string_view(TokenId)>& bytes_of);

  int vocab_size() const { return static_cast<int>(offsets_.size()) - 1; }
  std::span<const Node> nodes() const { return nodes_; }
  // The tokens that end at node `i`.
  std::span<const TokenId> tokens_at(size_t i) const {
    const uint32_t begin = i == 0 ? 0 : nodes_[i - 1].tokens_end;
    return std::span(tokens_).subspan(begin, nodes_[i].tokens_end - begin);
  }
  // Empty for tokens that were left out and for ids outside the vocabulary.
  std::string_view bytes_of(TokenId id) const;

 private:
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;
  std::vector<uint32_t> offsets_;  // [vocab + 1], into text_
  std::string text_;
};

}  // namespace baton::grammar
