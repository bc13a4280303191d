#include "common/tokenizer/bpe_merger.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/tokenizer/utf8.h"

namespace baton::tokenizer {
namespace {

// Up to here scanning an array beats the queue.
constexpr size_t kShortPieceBytes = 48;
// Indices of symbols are 32 bits, so longer pieces are merged in parts. No request is that long.
constexpr size_t kMaxPieceBytes = size_t{1} << 30;
// Deriving merges from scores tries each cut of each token.
constexpr size_t kMaxScoredTokenBytes = 512;
constexpr char32_t kNoCharacter = kInvalidCodePoint;
constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

uint64_t pair_of(TokenId left, TokenId right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

size_t slot_of(uint64_t pair, size_t slots) {
  const uint64_t hash = (pair ^ (pair >> 29)) * 0x9E3779B97F4A7C15ull;
  return static_cast<size_t>(hash >> 20) & (slots - 1);
}

std::string byte_token_text(size_t byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + '>';
}

// Dense ranks of the scores, the highest first; equal scores have equal ranks.
std::vector<uint32_t> ranks_of(std::span<const float> scores) {
  std::vector<uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });
  std::vector<uint32_t> ranks(scores.size());
  uint32_t rank = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    rank += i > 0 && scores[order[i]] < scores[order[i - 1]] ? 1 : 0;
    ranks[order[i]] = rank;
  }
  return ranks;
}

}  // namespace

Result<BpeMerger> BpeMerger::make(const Vocabulary& vocabulary, size_t merge_count) {
  BpeMerger merger(vocabulary.kind());
  BATON_RETURN_IF_ERROR(merger.read_byte_tokens(vocabulary));
  if (vocabulary.kind() == VocabularyKind::kSentencePiece) {
    merger.read_characters(vocabulary);
    merger.junctions_.assign(size_t{1} << 16, false);
  }
  merger.table_.assign(std::bit_ceil(merge_count * 2 + 2), Merge{kNoPair, 0, kNoToken});
  return merger;
}

Status BpeMerger::read_byte_tokens(const Vocabulary& vocabulary) {
  for (size_t byte = 0; byte < 256; ++byte) {
    if (kind_ == VocabularyKind::kByteLevel) {
      const char c = static_cast<char>(byte);
      byte_tokens_[byte] = vocabulary.find_bytes(std::string_view(&c, 1));
      continue;
    }
    const TokenId id = vocabulary.find_text(byte_token_text(byte));
    if (id == kNoToken || vocabulary.type(id) != TokenType::kByte) {
      return invalid_argument("tokenizer: the vocabulary has no byte token " +
                              byte_token_text(byte) + "; SentencePiece needs all 256 of them");
    }
    byte_tokens_[byte] = id;
  }
  return {};
}

void BpeMerger::read_characters(const Vocabulary& vocabulary) {
  std::vector<std::pair<char32_t, TokenId>> found;
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    const TokenId id = static_cast<TokenId>(i);
    const std::string_view bytes = vocabulary.bytes(id);
    if ((vocabulary.type(id) != TokenType::kNormal &&
         vocabulary.type(id) != TokenType::kUserDefined) ||
        bytes.empty() || bytes.size() > 4) {
      continue;
    }
    const CodePoint c = decode_code_point(bytes, 0);
    if (c.value != kInvalidCodePoint && c.length == bytes.size()) {
      found.emplace_back(c.value, id);
    }
  }
  characters_.assign(std::bit_ceil(found.size() * 2 + 2), {kNoCharacter, kNoToken});
  for (const auto& entry : found) {
    size_t slot = slot_of(entry.first, characters_.size());
    while (characters_[slot].first != kNoCharacter && characters_[slot].first != entry.first) {
      slot = (slot + 1) & (characters_.size() - 1);
    }
    if (characters_[slot].first == kNoCharacter) {
      characters_[slot] = entry;
    }
  }
}

TokenId BpeMerger::find_character(char32_t character) const {
  size_t slot = slot_of(character, characters_.size());
  while (characters_[slot].first != character && characters_[slot].first != kNoCharacter) {
    slot = (slot + 1) & (characters_.size() - 1);
  }
  return characters_[slot].first == character ? characters_[slot].second : kNoToken;
}

Result<BpeMerger> BpeMerger::create(const Vocabulary& vocabulary,
                                    std::span<const std::string> merges) {
  if (merges.size() > Vocabulary::kMaxTokens) {
    return invalid_argument("tokenizer: " + std::to_string(merges.size()) + " merges; at most " +
                            std::to_string(Vocabulary::kMaxTokens) + " are allowed");
  }
  BATON_ASSIGN_OR_RETURN(BpeMerger merger, make(vocabulary, merges.size()));
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
    merger.insert(vocabulary, left_id, right_id, static_cast<uint32_t>(rank), joined_id);
  }
  return merger;
}

Result<BpeMerger> BpeMerger::from_scores(const Vocabulary& vocabulary,
                                         std::span<const float> scores) {
  if (scores.size() != vocabulary.size()) {
    return invalid_argument("tokenizer: " + std::to_string(vocabulary.size()) + " tokens but " +
                            std::to_string(scores.size()) + " scores");
  }
  if (std::any_of(scores.begin(), scores.end(), [](float s) { return std::isnan(s); })) {
    return invalid_argument("tokenizer: a score is not a number");
  }
  const std::vector<uint32_t> ranks = ranks_of(scores);
  struct Pair {
    TokenId left;
    TokenId right;
    TokenId joined;
  };
  std::vector<Pair> pairs;
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    const TokenId id = static_cast<TokenId>(i);
    const std::string_view bytes = vocabulary.bytes(id);
    if (vocabulary.type(id) != TokenType::kNormal || vocabulary.find_bytes(bytes) != id) {
      continue;
    }
    if (bytes.size() > kMaxScoredTokenBytes) {
      return invalid_argument("tokenizer: token " + std::to_string(id) + " has " +
                              std::to_string(bytes.size()) + " bytes; at most " +
                              std::to_string(kMaxScoredTokenBytes) + " are allowed");
    }
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      const TokenId left = vocabulary.find_bytes(bytes.substr(0, cut));
      const TokenId right = left == kNoToken ? left : vocabulary.find_bytes(bytes.substr(cut));
      if (right != kNoToken) {
        pairs.push_back({left, right, id});
      }
    }
  }
  BATON_ASSIGN_OR_RETURN(BpeMerger merger, make(vocabulary, pairs.size()));
  for (const Pair& pair : pairs) {
    merger.insert(vocabulary, pair.left, pair.right, ranks[static_cast<size_t>(pair.joined)],
                  pair.joined);
  }
  return merger;
}

// Of merges of the same pair the last one counts, as in the reference implementation.
void BpeMerger::insert(const Vocabulary& vocabulary, TokenId left, TokenId right, uint32_t rank,
                       TokenId joined) {
  const uint64_t pair = pair_of(left, right);
  size_t slot = slot_of(pair, table_.size());
  while (table_[slot].pair != kNoPair && table_[slot].pair != pair) {
    slot = (slot + 1) & (table_.size() - 1);
  }
  table_[slot] = {pair, rank, joined};
  const std::string_view before = vocabulary.bytes(left);
  const std::string_view after = vocabulary.bytes(right);
  if (!junctions_.empty() && !before.empty() && !after.empty()) {
    junctions_[static_cast<size_t>(static_cast<uint8_t>(before.back())) << 8 |
               static_cast<uint8_t>(after.front())] = true;
  }
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

size_t BpeMerger::independent_end(std::string_view text, size_t begin, bool split_words) const {
  for (size_t end = begin + 1; end < text.size(); ++end) {
    const uint8_t left = static_cast<uint8_t>(text[end - 1]);
    const uint8_t right = static_cast<uint8_t>(text[end]);
    const bool joined =
        (right & 0xC0) == 0x80 || junctions_[static_cast<size_t>(left) << 8 | right];
    if (!joined || (split_words && right == ' ')) {
      return end;
    }
  }
  return text.size();
}

// The tokens with which merging begins.
template <typename Emit>
void BpeMerger::for_each_symbol(std::string_view piece, const Emit& emit) const {
  if (kind_ == VocabularyKind::kByteLevel) {
    for (const char byte : piece) {
      const TokenId id = byte_tokens_[static_cast<uint8_t>(byte)];
      if (id != kNoToken) {
        emit(id);
      }
    }
    return;
  }
  for (size_t i = 0; i < piece.size();) {
    const CodePoint c = decode_code_point(piece, i);
    const TokenId id = c.value == kInvalidCodePoint ? kNoToken : find_character(c.value);
    if (id != kNoToken) {
      emit(id);
    } else {
      for (const char byte : piece.substr(i, c.length)) {
        emit(byte_tokens_[static_cast<uint8_t>(byte)]);
      }
    }
    i += c.length;
  }
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
  for_each_symbol(piece, [&](TokenId id) { ids[count++] = id; });
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
  for_each_symbol(piece, [&](TokenId id) {
    const uint32_t index = static_cast<uint32_t>(symbols.size());
    symbols.push_back({id, index - 1, index + 1});
  });
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
    // Symbols only grow: another pair at the same place has another rank, or (equal scores) would
    // have its own entry equal to this one.
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
