#include "common/grammar/vocabulary_trie.h"

#include <algorithm>
#include <numeric>

namespace baton::grammar {

VocabularyTrie::VocabularyTrie(int vocab_size,
                               const std::function<std::string_view(TokenId)>& bytes_of) {
  offsets_.push_back(0);
  for (TokenId id = 0; id < vocab_size; ++id) {
    const std::string_view bytes = bytes_of(id);
    if (bytes.size() <= kMaxTokenBytes) {
      text_ += bytes;
    }
    offsets_.push_back(static_cast<uint32_t>(text_.size()));
  }
  std::vector<TokenId> order(static_cast<size_t>(vocab_size));
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [this](TokenId id) { return this->bytes_of(id).empty(); });
  std::sort(order.begin(), order.end(), [this](TokenId a, TokenId b) {
    const int compared = this->bytes_of(a).compare(this->bytes_of(b));
    return compared != 0 ? compared < 0 : a < b;
  });
  std::vector<uint32_t> path;  // nodes from the root to the token before
  std::string_view before;
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
    }
  };
  for (const TokenId id : order) {
    const std::string_view bytes = this->bytes_of(id);
    const size_t shared = static_cast<size_t>(
        std::mismatch(before.begin(), before.end(), bytes.begin(), bytes.end()).first -
        before.begin());
    close(shared);
    for (size_t i = shared; i < bytes.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({static_cast<uint8_t>(bytes[i]), static_cast<uint8_t>(i + 1), 0,
                        static_cast<uint32_t>(tokens_.size())});
    }
    tokens_.push_back(id);
    nodes_.back().tokens_end = static_cast<uint32_t>(tokens_.size());
    before = bytes;
  }
  close(0);
}

std::string_view VocabularyTrie::bytes_of(TokenId id) const {
  if (id < 0 || id >= vocab_size()) {
    return {};
  }
  const auto at = static_cast<size_t>(id);
  return std::string_view(text_).substr(offsets_[at], offsets_[at + 1] - offsets_[at]);
}

}  // namespace baton::grammar
