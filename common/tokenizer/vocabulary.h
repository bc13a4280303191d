#pragma once

// The vocabulary of a byte-level BPE tokenizer as plain data, and its looked-up form.
//
// "Byte-level" (GPT-2, https://github.com/openai/gpt-2/blob/master/src/encoder.py): every byte is
// written as one printable character, so a token's text in the file is not its bytes; see
// byte_level.h. Control and user-defined tokens are stored as plain text.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"

namespace baton::tokenizer {

inline constexpr TokenId kNoToken = -1;

// The numbers are those of tokenizer.ggml.token_type.
enum class TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
};

// What a model file says about its tokenizer. Nothing in it is trusted.
struct VocabularySpec {
  std::string model = "gpt2";  // tokenizer.ggml.model
  std::string pre_tokenizer;   // tokenizer.ggml.pre
  std::vector<std::string> tokens;
  std::vector<int32_t> token_types;  // as many as tokens, or none: all are normal
  std::vector<std::string> merges;   // "left right", best first
  std::optional<TokenId> bos_id;
  std::optional<TokenId> eos_id;
  std::optional<TokenId> eot_id;
  std::optional<TokenId> eom_id;
  std::optional<TokenId> unknown_id;
  std::optional<TokenId> padding_id;
  std::optional<bool> add_bos;        // absent: what the pre-tokenizer's family does
  std::optional<bool> ignore_merges;  // absent: what the pre-tokenizer's family does
  std::string chat_template;          // Jinja source; empty when the file has none
};

// Token texts, bytes and types by id, and ids by text or bytes. Immutable; any number of threads
// may read. Views live as long as the Vocabulary, also over a move.
class Vocabulary final {
 public:
  // invalid_argument: no tokens, more than kMaxTokens, a type list of another length;
  // unsupported: a token type that byte-level BPE does not have.
  static Result<Vocabulary> create(std::vector<std::string> tokens,
                                   std::span<const int32_t> token_types);

  static constexpr size_t kMaxTokens = size_t{1} << 24;

  Vocabulary(Vocabulary&&) noexcept = default;
  Vocabulary& operator=(Vocabulary&&) noexcept = default;
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  ~Vocabulary() = default;

  size_t size() const { return texts_.size(); }
  bool contains(TokenId id) const { return id >= 0 && static_cast<size_t>(id) < texts_.size(); }

  // Precondition of the three: contains(id).
  const std::string& text(TokenId id) const { return texts_[static_cast<size_t>(id)]; }
  std::string_view bytes(TokenId id) const {
    const size_t i = static_cast<size_t>(id);
    return std::string_view(arena_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  TokenType type(TokenId id) const { return types_[static_cast<size_t>(id)]; }

  // The normal token with these bytes, or kNoToken. Of duplicates the lowest id.
  TokenId find_bytes(std::string_view bytes) const;
  // The token of any type with this text as the file writes it, or kNoToken.
  TokenId find_text(std::string_view text) const;

 private:
  Vocabulary() = default;
  void index();

  std::vector<std::string> texts_;
  std::vector<TokenType> types_;
  std::string arena_;              // all token bytes, back to back
  std::vector<uint32_t> offsets_;  // size() + 1
  // Open addressing, power-of-two sized, at most half full; kNoToken marks a free slot.
  std::vector<TokenId> by_bytes_;
  std::vector<TokenId> by_text_;
};

}  // namespace baton::tokenizer
