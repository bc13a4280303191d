#include "common/tokenizer/special_tokens.h"

namespace baton::tokenizer {

SpecialTokenMatcher::SpecialTokenMatcher(
    const std::vector<std::pair<std::string, TokenId>>& tokens) {
  nodes_.emplace_back();
  for (const auto& [text, id] : tokens) {
    uint32_t node = 0;
    for (const char byte : text) {
      uint32_t next = child(node, byte);
      if (next == 0) {
        next = static_cast<uint32_t>(nodes_.size());
        nodes_.push_back({0, nodes_[node].first_child, -1, byte});
        nodes_[node].first_child = next;
      }
      node = next;
    }
    if (node != 0 && nodes_[node].id < 0) {
      nodes_[node].id = id;
    }
  }
  for (uint32_t node = nodes_[0].first_child; node != 0; node = nodes_[node].next_sibling) {
    roots_[static_cast<uint8_t>(nodes_[node].byte)] = node;
  }
}

uint32_t SpecialTokenMatcher::child(uint32_t node, char byte) const {
  uint32_t next = nodes_[node].first_child;
  while (next != 0 && nodes_[next].byte != byte) {
    next = nodes_[next].next_sibling;
  }
  return next;
}

std::optional<SpecialTokenMatcher::Match> SpecialTokenMatcher::match_at(std::string_view text,
                                                                        size_t begin) const {
  std::optional<Match> longest;
  uint32_t node = roots_[static_cast<uint8_t>(text[begin])];
  for (size_t end = begin + 1; node != 0; ++end) {
    if (nodes_[node].id >= 0) {
      longest = Match{begin, end, nodes_[node].id};
    }
    if (end == text.size()) {
      break;
    }
    node = child(node, text[end]);
  }
  return longest;
}

std::optional<SpecialTokenMatcher::Match> SpecialTokenMatcher::find(std::string_view text,
                                                                    size_t from) const {
  if (nodes_.size() == 1) {
    return std::nullopt;
  }
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (roots_[static_cast<uint8_t>(text[begin])] == 0) {
      continue;
    }
    if (const auto match = match_at(text, begin)) {
      return match;
    }
  }
  return std::nullopt;
}

}  // namespace baton::tokenizer
