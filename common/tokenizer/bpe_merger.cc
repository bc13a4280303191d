#include "common/tokenizer/bpe_merger.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace baton::tokenizer {
namespace {

// Up to here scanning an array beats the queue.
constexpr size_t kShortPieceBytes = 48;
// Indices of symbols are 32 bits, so longer pieces are merged in parts. No request is that long.
constexpr size_t kMaxPieceBytes = size_t{1} << 30;
constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

uint64_t pair_of(TokenId left, TokenId right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

size_t slot_of(uint64_t pair, size_t slots) {
  const uint64_t hash = (pair ^ (pair >> 29)) * 0x9E3779B97F4A7C15ull;
  return static_cast<size_t>(hash >> 20) & (slots - 1);
}

}  // namespace

Result<BpeMerger> BpeMerger::create(const Vocabulary& vocabulary,
                                    std::span<const std::string> merges) {
  if (merges.size() > Vocabulary::kMaxTokens) {
    return invalid_argument("tokenizer: " + std::to_string(merges.size()) + " merges; at most " +
                            std::to_string(Vocabulary::kMaxTokens) + " are allowed");
  }
  BpeMerger merger;
  for (size_t byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    merger.byte_tokens_[byte] = vocabulary.find_bytes(std::string_view(&c, 1));
  }
  merger.table_.assign(std::bit_ceil(merges.size() * 2 + 2), Merge{kNoPair, 0, kNoToken});
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const size_t space = merge.find(' ', 1);  // the alphabet of the parts has no space
    if (space == std::string_view::npos) {
      return invalid_argument("tokenizer: merge " + std::to_string(rank) + " \"" + merges[rank] +
                              "\" is not two tokens separated by a space");
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    joined.assign(left).append(right);
    const TokenId left_id = vocabulary.find_text(left);
    const TokenId right_id = vocabulary.find_text(right);
    const TokenId joined_id = vocabulary.find_text(joined);
    if (left_id == kNoToken || right_id == kNoToken || joined_id == kNoToken) {
      return invalid_argument("tokenizer: merge " + std::to_string(rank) + " \"" + merges[rank] +
                              "\" names or makes a token that the vocabulary does not have");
    }
    merger.insert(pair_of(left_id, right_id), static_cast<uint32_t>(rank), joined_id);
  }
  return merger;
}

// Of merges of the same pair the last one counts, as in the reference implementation.
void BpeMerger::insert(uint64_t pair, uint32_t rank, TokenId joined) {
  size_t slot = slot_of(pair, table_.size());
  while (table_[slot].pair != kNoPair && table_[slot].pair != pair) {
    slot = (slot + 1) & (table_.size() - 1);
  }
  table_[slot] = {pair, rank, joined};
}

const BpeMerger::Merge* BpeMerger::find(TokenId left, TokenId right) const {
  const uint64_t pair = pair_of(left, right);
  size_t slot = slot_of(pair, table_.size());
  while (table_[slot].pair != kNoPair) {
    if (table_[slot].pair == pair) {
      return &table_[slot];
    }
    slot = (slot + 1) & (table_.size() - 1);
  }
  return nullptr;
}

void BpeMerger::merge(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  while (piece.size() > kShortPieceBytes) {
    merge_long(piece.substr(0, kMaxPieceBytes), scratch, out);
    piece.remove_prefix(std::min(piece.size(), kMaxPieceBytes));
  }
  merge_short(piece, out);
}

void BpeMerger::merge_short(std::string_view piece, std::vector<TokenId>& out) const {
  std::array<TokenId, kShortPieceBytes> ids;
  std::array<const Merge*, kShortPieceBytes> merges;  // of [i] and [i + 1]
  size_t count = 0;
  for (const char byte : piece) {
    const TokenId id = byte_tokens_[static_cast<uint8_t>(byte)];
    if (id != kNoToken) {
      ids[count++] = id;
    }
  }
  for (size_t i = 0; i + 1 < count; ++i) {
    merges[i] = find(ids[i], ids[i + 1]);
  }
  while (count > 1) {
    size_t best = count;
    for (size_t i = 0; i + 1 < count; ++i) {
      if (merges[i] != nullptr && (best == count || merges[i]->rank < merges[best]->rank)) {
        best = i;
      }
    }
    if (best == count) {
      break;
    }
    ids[best] = merges[best]->joined;
    std::copy(ids.begin() + best + 2, ids.begin() + count, ids.begin() + best + 1);
    if (best + 2 < count) {
      std::copy(merges.begin() + best + 2, merges.begin() + count - 1, merges.begin() + best + 1);
    }
    --count;
    if (best > 0) {
      merges[best - 1] = find(ids[best - 1], ids[best]);
    }
    if (best + 1 < count) {
      merges[best] = find(ids[best], ids[best + 1]);
    }
  }
  out.insert(out.end(), ids.begin(), ids.begin() + count);
}

void BpeMerger::merge_long(std::string_view piece, Scratch& scratch,
                           std::vector<TokenId>& out) const {
  auto& symbols = scratch.symbols;
  auto& queue = scratch.queue;
  symbols.clear();
  queue.clear();
  for (const char byte : piece) {
    const TokenId id = byte_tokens_[static_cast<uint8_t>(byte)];
    if (id != kNoToken) {
      const uint32_t index = static_cast<uint32_t>(symbols.size());
      symbols.push_back({id, index - 1, index + 1});
    }
  }
  if (symbols.empty()) {
    return;
  }
  symbols.front().previous = kNone;
  symbols.back().next = kNone;
  const auto worse = std::greater<uint64_t>();
  for (uint32_t i = 0; i + 1 < symbols.size(); ++i) {
    if (const Merge* merge = find(symbols[i].id, symbols[i + 1].id)) {
      queue.push_back((static_cast<uint64_t>(merge->rank) << 32) | i);
    }
  }
  std::make_heap(queue.begin(), queue.end(), worse);
  const auto offer = [&](uint32_t left) {
    const Merge* merge = find(symbols[left].id, symbols[symbols[left].next].id);
    if (merge != nullptr) {
      queue.push_back((static_cast<uint64_t>(merge->rank) << 32) | left);
      std::push_heap(queue.begin(), queue.end(), worse);
    }
  };
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), worse);
    const uint32_t rank = static_cast<uint32_t>(queue.back() >> 32);
    const uint32_t left = static_cast<uint32_t>(queue.back());
    queue.pop_back();
    // Entries are not removed when a neighbour is merged away, so each is checked when it comes up.
    // Symbols only grow, hence another pair at the same place never has the rank of this one.
    const uint32_t right = symbols[left].next;
    if (symbols[left].id == kNoToken || right == kNone) {
      continue;
    }
    const Merge* merge = find(symbols[left].id, symbols[right].id);
    if (merge == nullptr || merge->rank != rank) {
      continue;
    }
    symbols[left].id = merge->joined;
    symbols[left].next = symbols[right].next;
    symbols[right].id = kNoToken;
    if (symbols[left].next != kNone) {
      symbols[symbols[left].next].previous = left;
      offer(left);
    }
    if (symbols[left].previous != kNone) {
      offer(symbols[left].previous);
    }
  }
  for (uint32_t i = 0; i != kNone; i = symbols[i].next) {
    out.push_back(symbols[i].id);
  }
}

}  // namespace baton::tokenizer
