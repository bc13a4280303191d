#pragma once

// Runs an automaton over bytes and over whole tokens, and remembers what it found: which place of
// the text follows which, and which tokens may come at each place. Shared by all requests that
// have the same grammar.
//
// A place is the set of all positions of the push-down automaton that the text so far allows. Each
// position is a state and a stack of return addresses; stacks share their lower parts. Places are
// made when a text first reaches them (lazy determinisation), so grammars whose full
// determinisation would explode cost only what is used.
//
// Source of the idea of token masks from a vocabulary tree: B. T. Willard, R. Louf, "Efficient
// Guided Generation for Large Language Models" (2023), https://arxiv.org/abs/2307.09702; of
// push-down automata for it: Y. Dong et al., "XGrammar" (2024), https://arxiv.org/abs/2411.15100.

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/grammar/automaton.h"
#include "common/grammar/vocabulary_trie.h"

namespace baton::grammar {

// One bit a token: it may come next.
struct TokenMask {
  std::vector<uint64_t> words;  // [ceil(vocab / 64)]
  bool any = false;
};

// Thread-safe; calls for one grammar take turns. Never blocks otherwise. The first look at a place
// costs about a pass over the vocabulary (1 ms for 128k tokens), each later one a few reads.
class Recognizer {
 public:
  struct Place {
    uint64_t epoch = 0;
    int32_t index = 0;
    bool may_end = false;   // the text may end here
    bool must_end = false;  // nothing but the end may follow
  };
  struct Limits {
    // Kept; beyond one of them all are forgotten, and texts are read again. A few times as many
    // fit while one mask is computed. All together take at most about 30 MB.
    size_t places = 8'192;
    size_t masks = 512;
    size_t positions = 250'000;  // of all places, and stack nodes
    size_t positions_of_place = 2'000;
  };

  Recognizer(Automaton automaton, std::shared_ptr<const VocabularyTrie> vocabulary, Limits limits);
  Recognizer(Automaton automaton, std::shared_ptr<const VocabularyTrie> vocabulary)
      : Recognizer(std::move(automaton), std::move(vocabulary), Limits()) {}

  const VocabularyTrie& vocabulary() const { return *vocabulary_; }

  Place start() EXCLUDES(mutex_);
  // Reads `text` from `place`. Nothing when the place was forgotten: begin again from start().
  // invalid_argument: no text of the grammar goes on like this; resource_exhausted: the grammar is
  // too ambiguous there.
  std::optional<Result<Place>> advance(Place place, std::string_view text) EXCLUDES(mutex_);
  // Nothing when the place was forgotten. A full recognizer forgets here, when it may: not for who
  // has just read a text again.
  std::optional<Result<std::shared_ptr<const TokenMask>>> mask(Place place, bool may_forget = true)
      EXCLUDES(mutex_);

 private:
  using StackId = int32_t;
  struct Position {
    StateId state = 0;
    StackId stack = 0;
    friend bool operator==(const Position&, const Position&) = default;
    friend auto operator<=>(const Position&, const Position&) = default;
  };
  struct StackNode {
    StateId state = 0;  // where to go on
    StackId below = 0;
  };
  // Of its limits, how much is used at most while one text or one mask is looked at.
  static constexpr size_t kShareWithin = 4;
  static constexpr int32_t kDead = -1;
  static constexpr int32_t kUnknown = -2;
  static constexpr int32_t kTooMany = -3;
  struct Node {
    std::span<const Position> positions;  // sorted; those that can read a byte; in places_
    bool may_end = false;
    std::array<uint16_t, 256> group{};  // of each byte: bytes of a group lead to the same place
    std::vector<int32_t> targets;       // by group
    std::vector<uint8_t> samples;       // a byte of each group
    std::shared_ptr<const TokenMask> mask;
  };
  struct PositionsHash {
    size_t operator()(const std::vector<Position>& positions) const;
  };

  bool known(Place place) const REQUIRES(mutex_);
  Place place_at(int32_t index) const REQUIRES(mutex_);
  void forget() REQUIRES(mutex_);
  // Holds more than `share` times its limits.
  bool is_full(size_t share) const REQUIRES(mutex_);
  StackId push(StateId state, StackId below) REQUIRES(mutex_);
  // Index of the place of these positions and all that they reach without reading; kDead, kTooMany.
  int32_t place_of(std::vector<Position> reached) REQUIRES(mutex_);
  void group_bytes(Node& node) const REQUIRES(mutex_);
  int32_t step(int32_t from, uint8_t byte) REQUIRES(mutex_);
  int32_t compute_step(int32_t from, uint8_t byte) REQUIRES(mutex_);
  Result<std::shared_ptr<const TokenMask>> compute_mask(int32_t place) REQUIRES(mutex_);

  const Automaton automaton_;
  const std::shared_ptr<const VocabularyTrie> vocabulary_;
  const Limits limits_;
  Mutex mutex_;
  uint64_t epoch_ GUARDED_BY(mutex_) = 1;
  std::deque<Node> nodes_ GUARDED_BY(mutex_);
  std::unordered_map<std::vector<Position>, int32_t, PositionsHash> places_ GUARDED_BY(mutex_);
  size_t masks_ GUARDED_BY(mutex_) = 0;
  size_t positions_ GUARDED_BY(mutex_) = 0;
  std::vector<StackNode> stacks_ GUARDED_BY(mutex_);  // 0 is the empty stack
  std::unordered_map<uint64_t, StackId> stack_ids_ GUARDED_BY(mutex_);
};

}  // namespace baton::grammar
