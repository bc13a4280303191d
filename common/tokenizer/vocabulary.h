#pragma once

// The vocabulary of a tokenizer as plain data, and its looked-up form. Two kinds:
//
// "Byte-level" (GPT-2, https://github.com/openai/gpt-2/blob/master/src/encoder.py): every byte is
// written as one printable character, so a token's text in the file is not its bytes; see
// byte_level.h. Control and user-defined tokens are stored as plain text.
//
// "SentencePiece" (https://github.com/google/sentencepiece): tokens are plain text in which U+2581
// stands for a space; the tokens <0x00> to <0xFF> are single bytes, for characters that the
// vocabulary lacks.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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
  kByte = 6,  // SentencePiece only
};

enum class VocabularyKind : uint8_t { kByteLevel, kSentencePiece };

// How a user-defined or control token is found in text. The default is that of GGUF files.
struct MatchRule {
  bool normalized = false;   // in normalised text, after all tokens for which this is false
  bool left_strip = false;   // takes white space before it along
  bool right_strip = false;  // takes white space behind it along
};

// SentencePiece: what happens to spaces.
struct SpaceRules {
  enum class Prefix : uint8_t {
    kNone,              // Gemma
    kEverySegment,      // one space before each stretch of text between special tokens
    kUnlessSpace,       // the same, but none before a space
    kFirstUnlessSpace,  // as kUnlessSpace, at the beginning of the text only
  };
  Prefix prefix = Prefix::kEverySegment;
  bool split_words = false;     // merges never cross the beginning of a space
  bool remove_extra = false;    // no spaces at both ends, one where several follow each other
  bool strip_on_decode = true;  // a text's first space is not shown
};

// What a model file says about its tokenizer. Nothing in it is trusted.
struct VocabularySpec {
  std::string model = "gpt2";  // tokenizer.ggml.model: gpt2 is byte-level, llama SentencePiece
  std::string pre_tokenizer;   // tokenizer.ggml.pre; SentencePiece: "default" or empty
  std::vector<std::string> tokens;
  std::vector<int32_t> token_types;  // as many as tokens, or none: all are normal
  std::vector<std::string> merges;   // "left right", best first
  std::vector<float> scores;         // SentencePiece without merges: as many as tokens
  std::vector<std::pair<TokenId, MatchRule>> match_rules;  // where they are not the default
  SpaceRules spaces;                                       // SentencePiece only
  std::optional<TokenId> bos_id;
  std::optional<TokenId> eos_id;
  std::optional<TokenId> eot_id;
  std::optional<TokenId> eom_id;
  std::optional<TokenId> unknown_id;
  std::optional<TokenId> padding_id;
  std::vector<TokenId> more_end_ids;  // end a generation as EOS does
  std::optional<bool> add_bos;        // absent: what the family does
  std::optional<bool> ignore_merges;  // absent: what the pre-tokenizer's family does
  std::optional<bool> is_nfc;         // absent: what the pre-tokenizer's family does
  std::string chat_template;          // Jinja source; empty when the file has none
  std::vector<std::pair<std::string, std::string>> named_chat_templates;  // name, Jinja source
};

// Token texts, bytes and types by id, and ids by text or bytes. Immutable; any number of threads
// may read. Views live as long as the Vocabulary, also over a move.
class Vocabulary final {
 public:
  // invalid_argument: no tokens, more than kMaxTokens, a type list of another length, a byte token
  // that is not written <0xNN>; unsupported: a token type that the kind does not have.
  static Result<Vocabulary> create(VocabularyKind kind, std::vector<std::string> tokens,
                                   std::span<const int32_t> token_types);

  static constexpr size_t kMaxTokens = size_t{1} << 24;

  Vocabulary(Vocabulary&&) noexcept = default;
  Vocabulary& operator=(Vocabulary&&) noexcept = default;
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  ~Vocabulary() = default;

  VocabularyKind kind() const { return kind_; }
  size_t size() const { return texts_.size(); }
  bool contains(TokenId id) const { return id >= 0 && static_cast<size_t>(id) < texts_.size(); }

  // Precondition of the three: contains(id).
  const std::string& text(TokenId id) const { return texts_[static_cast<size_t>(id)]; }
  std::string_view bytes(TokenId id) const {
    const size_t i = static_cast<size_t>(id);
    return std::string_view(arena_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  TokenType type(TokenId id) const { return types_[static_cast<size_t>(id)]; }

  // The normal token with these bytes (spaces are spaces), or kNoToken. Of duplicates the lowest
  // id.
  TokenId find_bytes(std::string_view bytes) const;
  // The token of any type with this text as the file writes it, or kNoToken.
  TokenId find_text(std::string_view text) const;

 private:
  explicit Vocabulary(VocabularyKind kind) : kind_(kind) {}
  void index();

  VocabularyKind kind_;

  std::vector<std::string> texts_;
  std::vector<TokenType> types_;
  std::string arena_;              // all token bytes, back to back
  std::vector<uint32_t> offsets_;  // size() + 1
  // Open addressing, power-of-two sized, at most half full; kNoToken marks a free slot.
  std::vector<TokenId> by_bytes_;
  std::vector<TokenId> by_text_;
};

}  // namespace baton::tokenizer
