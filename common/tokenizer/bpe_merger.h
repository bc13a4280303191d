#pragma once

// Byte pair encoding of one piece: starting from the tokens of its bytes, or of its characters with
// a SentencePiece vocabulary, the pair of neighbours with the best merge (lowest rank, then
// leftmost) is joined until no pair has a merge.
// (Sennrich et al. 2016, https://arxiv.org/abs/1508.07909.)
//
// A character without a token begins as the byte tokens of its bytes (SentencePiece), or as the
// tokens of those of its bytes that have one.
//
// Short pieces are merged by repeated scans of a small array; long ones by a priority queue over a
// linked list, O(n log n), so that one word of a megabyte is no attack.
//
// Threads: const methods are safe from any number of threads, each with a Scratch of its own.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/tokenizer/vocabulary.h"

namespace baton::tokenizer {

class BpeMerger final {
 public:
  // Reused memory of one thread's calls.
  struct Scratch {
    struct Symbol {
      TokenId id;
      uint32_t previous;
      uint32_t next;
    };
    std::vector<Symbol> symbols;
    std::vector<uint64_t> queue;  // rank << 32 | index of the left symbol
  };

  // Ranks are the order of `merges`. invalid_argument: a merge that is not "left right", or whose
  // parts or result are no token; a SentencePiece vocabulary without all 256 byte tokens.
  static Result<BpeMerger> create(const Vocabulary& vocabulary,
                                  std::span<const std::string> merges);
  // SentencePiece: two normal tokens merge when their join is a normal token, higher scores first.
  // invalid_argument: as many scores as tokens are wanted, a score is no number, a token is longer
  // than any vocabulary's, or byte tokens are missing.
  static Result<BpeMerger> from_scores(const Vocabulary& vocabulary, std::span<const float> scores);

  // Appends the tokens of `piece`.
  void merge(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;

  // The end of the stretch of `text` from `begin` that can be merged by itself, because no merge
  // joins what meets there. SentencePiece vocabularies have no pre-tokenizer; this is theirs.
  // With `split_words` it ends before the next space, too. Precondition: begin < text.size().
  // O(length of the stretch).
  size_t independent_end(std::string_view text, size_t begin, bool split_words = false) const;

 private:
  struct Merge {
    uint64_t pair;  // left << 32 | right; kNoPair marks a free slot
    uint32_t rank;
    TokenId joined;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};

  explicit BpeMerger(VocabularyKind kind) : kind_(kind) {}
  static Result<BpeMerger> make(const Vocabulary& vocabulary, size_t merge_count);
  Status read_byte_tokens(const Vocabulary& vocabulary);
  void read_characters(const Vocabulary& vocabulary);
  void insert(const Vocabulary& vocabulary, TokenId left, TokenId right, uint32_t rank,
              TokenId joined);
  const Merge* find(TokenId left, TokenId right) const;
  TokenId find_character(char32_t character) const;
  template <typename Emit>
  void for_each_symbol(std::string_view piece, const Emit& emit) const;
  void merge_short(std::string_view piece, std::vector<TokenId>& out) const;
  void merge_long(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;

  VocabularyKind kind_;
  std::array<TokenId, 256> byte_tokens_{};
  // SentencePiece: tokens of one character. Open addressing, at most half full.
  std::vector<std::pair<char32_t, TokenId>> characters_;
  // SentencePiece: bit left << 8 | right is set when a merge joins a token that ends with the byte
  // `left` and one that begins with `right`.
  std::vector<bool> junctions_;
  std::vector<Merge> table_;  // open addressing, power-of-two sized, at most half full
};

}  // namespace baton::tokenizer
