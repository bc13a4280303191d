#pragma once

// Byte pair encoding of one piece: starting from the tokens of its bytes, the pair of neighbours
// with the best merge (lowest rank, then leftmost) is joined until no pair has a merge.
// (Sennrich et al. 2016, https://arxiv.org/abs/1508.07909.)
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

  // invalid_argument: a merge that is not "left right", or whose parts or result are no token.
  static Result<BpeMerger> create(const Vocabulary& vocabulary,
                                  std::span<const std::string> merges);

  // Appends the tokens of `piece`. Bytes without a token are dropped before merging.
  void merge(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;

 private:
  struct Merge {
    uint64_t pair;  // left << 32 | right; kNoPair marks a free slot
    uint32_t rank;
    TokenId joined;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};

  BpeMerger() = default;
  void insert(uint64_t pair, uint32_t rank, TokenId joined);
  const Merge* find(TokenId left, TokenId right) const;
  void merge_short(std::string_view piece, std::vector<TokenId>& out) const;
  void merge_long(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;

  std::array<TokenId, 256> byte_tokens_{};
  std::vector<Merge> table_;  // open addressing, power-of-two sized, at most half full
};

}  // namespace baton::tokenizer
