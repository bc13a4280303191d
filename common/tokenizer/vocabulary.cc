#include "common/tokenizer/vocabulary.h"

#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "common/tokenizer/byte_level.h"

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

Result<TokenType> token_type_of(int32_t value, size_t id) {
  if (value >= static_cast<int32_t>(TokenType::kNormal) &&
      value <= static_cast<int32_t>(TokenType::kUnused)) {
    return static_cast<TokenType>(value);
  }
  return unsupported("tokenizer: token " + std::to_string(id) + " has type " +
                     std::to_string(value) +
                     "; byte-level BPE has 1 normal, 2 unknown, 3 control, 4 user-defined, "
                     "5 unused");
}

// Of a normal token that is not written in the byte-level alphabet the text itself is the bytes, as
// in the reference implementation.
std::string bytes_of(const std::string& text, TokenType type) {
  switch (type) {
    case TokenType::kNormal:
      return bytes_from_byte_level(text).value_or(text);
    case TokenType::kUnknown:
    case TokenType::kControl:
    case TokenType::kUserDefined:
      return text;
    case TokenType::kUnused:
      return "";
  }
  return "";
}

}  // namespace

Result<Vocabulary> Vocabulary::create(std::vector<std::string> tokens,
                                      std::span<const int32_t> token_types) {
  if (tokens.empty() || tokens.size() > kMaxTokens) {
    return invalid_argument("tokenizer: the vocabulary has " + std::to_string(tokens.size()) +
                            " tokens; 1 to " + std::to_string(kMaxTokens) + " are allowed");
  }
  if (!token_types.empty() && token_types.size() != tokens.size()) {
    return invalid_argument("tokenizer: " + std::to_string(tokens.size()) + " tokens but " +
                            std::to_string(token_types.size()) + " token types");
  }
  Vocabulary vocabulary;
  vocabulary.texts_ = std::move(tokens);
  const size_t count = vocabulary.texts_.size();
  vocabulary.types_.reserve(count);
  vocabulary.offsets_.reserve(count + 1);
  vocabulary.offsets_.push_back(0);
  for (size_t i = 0; i < count; ++i) {
    TokenType type = TokenType::kNormal;
    if (!token_types.empty()) {
      BATON_ASSIGN_OR_RETURN(type, token_type_of(token_types[i], i));
    }
    vocabulary.types_.push_back(type);
    vocabulary.arena_ += bytes_of(vocabulary.texts_[i], type);
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
    insert(by_text_, texts_[i], id, [&](TokenId t) { return std::string_view(text(t)); });
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
