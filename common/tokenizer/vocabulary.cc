#include "common/tokenizer/vocabulary.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <utility>

#include "common/tokenizer/byte_level.h"
#include "common/tokenizer/space_marks.h"

namespace baton::tokenizer {
namespace {

// Multiply-and-fold over 8-byte words. The keys of the tables come from the model file, lookups
// from users; a user cannot make the tables themselves degenerate.
uint64_t hash_of(std::string_view bytes) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15ull;
  uint64_t hash = bytes.size() * kMultiplier;
  const char* data = bytes.data();
  size_t left = bytes.size();
  while (left > 0) {
    uint64_t word = 0;
    const size_t take = left < 8 ? left : 8;
    std::memcpy(&word, data, take);
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 32;
    data += take;
    left -= take;
  }
  return hash;
}

Result<TokenType> token_type_of(VocabularyKind kind, int32_t value, size_t id) {
  const bool has_bytes = kind == VocabularyKind::kSentencePiece;
  const TokenType last = has_bytes ? TokenType::kByte : TokenType::kUnused;
  if (value >= static_cast<int32_t>(TokenType::kNormal) && value <= static_cast<int32_t>(last)) {
    return static_cast<TokenType>(value);
  }
  return unsupported("tokenizer: token " + std::to_string(id) + " has type " +
                     std::to_string(value) + "; " +
                     (has_bytes ? "SentencePiece" : "byte-level BPE") +
                     " has 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused" +
                     (has_bytes ? ", 6 byte" : ""));
}

// "<0x0A>"
std::optional<char> byte_of(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') {
    return std::nullopt;
  }
  unsigned value = 0;
  const auto parsed = std::from_chars(text.data() + 3, text.data() + 5, value, 16);
  return parsed.ptr == text.data() + 5 ? std::optional(static_cast<char>(value)) : std::nullopt;
}

// Of a normal token that is not written in the byte-level alphabet the text itself is the bytes, as
// in the reference implementation.
Result<std::string> bytes_of(VocabularyKind kind, const std::string& text, TokenType type,
                             size_t id) {
  if (type == TokenType::kUnused) {
    return std::string();
  }
  if (type == TokenType::kByte) {
    const std::optional<char> byte = byte_of(text);
    if (!byte.has_value()) {
      return invalid_argument("tokenizer: token " + std::to_string(id) + " \"" + text +
                              "\" has type 6 byte, but is not written <0xNN>");
    }
    return std::string(1, *byte);
  }
  if (kind == VocabularyKind::kSentencePiece) {
    return spaces_from_marks(text);
  }
  return type == TokenType::kNormal ? bytes_from_byte_level(text).value_or(text) : text;
}

}  // namespace

Result<Vocabulary> Vocabulary::create(VocabularyKind kind, std::vector<std::string> tokens,
                                      std::span<const int32_t> token_types) {
  if (tokens.empty() || tokens.size() > kMaxTokens) {
    return invalid_argument("tokenizer: the vocabulary has " + std::to_string(tokens.size()) +
                            " tokens; 1 to " + std::to_string(kMaxTokens) + " are allowed");
  }
  if (!token_types.empty() && token_types.size() != tokens.size()) {
    return invalid_argument("tokenizer: " + std::to_string(tokens.size()) + " tokens but " +
                            std::to_string(token_types.size()) + " token types");
  }
  Vocabulary vocabulary(kind);
  vocabulary.texts_ = std::move(tokens);
  const size_t count = vocabulary.texts_.size();
  vocabulary.types_.reserve(count);
  vocabulary.offsets_.reserve(count + 1);
  vocabulary.offsets_.push_back(0);
  for (size_t i = 0; i < count; ++i) {
    TokenType type = TokenType::kNormal;
    if (!token_types.empty()) {
      BATON_ASSIGN_OR_RETURN(type, token_type_of(kind, token_types[i], i));
    }
    vocabulary.types_.push_back(type);
    BATON_ASSIGN_OR_RETURN(const std::string bytes, bytes_of(kind, vocabulary.texts_[i], type, i));
    vocabulary.arena_ += bytes;
    if (vocabulary.arena_.size() > std::numeric_limits<uint32_t>::max()) {
      return invalid_argument("tokenizer: the vocabulary's texts exceed 4 GiB");
    }
    vocabulary.offsets_.push_back(static_cast<uint32_t>(vocabulary.arena_.size()));
  }
  vocabulary.index();
  return vocabulary;
}

void Vocabulary::index() {
  const size_t slots = std::bit_ceil(texts_.size() * 2);
  by_bytes_.assign(slots, kNoToken);
  by_text_.assign(slots, kNoToken);
  const auto insert = [slots](std::vector<TokenId>& table, std::string_view key, TokenId id,
                              const auto& key_of) {
    size_t slot = hash_of(key) & (slots - 1);
    while (table[slot] != kNoToken && key_of(table[slot]) != key) {
      slot = (slot + 1) & (slots - 1);
    }
    if (table[slot] == kNoToken) {
      table[slot] = id;
    }
  };
  for (size_t i = 0; i < texts_.size(); ++i) {
    const TokenId id = static_cast<TokenId>(i);
    if (types_[i] != TokenType::kUnused || !texts_[i].empty()) {
      insert(by_text_, texts_[i], id, [&](TokenId t) { return std::string_view(text(t)); });
    }
    if (types_[i] == TokenType::kNormal) {
      insert(by_bytes_, bytes(id), id, [&](TokenId t) { return bytes(t); });
    }
  }
}

TokenId Vocabulary::find_bytes(std::string_view key) const {
  const size_t mask = by_bytes_.size() - 1;
  for (size_t slot = hash_of(key) & mask;; slot = (slot + 1) & mask) {
    const TokenId id = by_bytes_[slot];
    if (id == kNoToken || bytes(id) == key) {
      return id;
    }
  }
}

TokenId Vocabulary::find_text(std::string_view key) const {
  const size_t mask = by_text_.size() - 1;
  for (size_t slot = hash_of(key) & mask;; slot = (slot + 1) & mask) {
    const TokenId id = by_text_[slot];
    if (id == kNoToken || text(id) == key) {
      return id;
    }
  }
}

}  // namespace baton::tokenizer
