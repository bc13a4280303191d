#include "common/grammar/recognizer.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace baton::grammar {
namespace {

uint64_t pair_key(int32_t high, int32_t low) {
  return static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32 | static_cast<uint32_t>(low);
}

Status too_ambiguous() {
  return resource_exhausted(
      "the grammar is too ambiguous: too many of its parts match the text so far");
}

}  // namespace

size_t Recognizer::PositionsHash::operator()(const std::vector<Position>& positions) const {
  uint64_t hash = positions.size();
  for (const Position& position : positions) {
    hash = (hash ^ pair_key(position.state, position.stack)) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 29;
  }
  return hash;
}

Recognizer::Recognizer(Automaton automaton, std::shared_ptr<const VocabularyTrie> vocabulary,
                       Limits limits)
    : automaton_(std::move(automaton)), vocabulary_(std::move(vocabulary)), limits_(limits) {
  forget();
}

bool Recognizer::is_full(size_t share) const {
  return nodes_.size() > share * limits_.places || masks_ > share * limits_.masks ||
         positions_ + stacks_.size() > share * limits_.positions;
}

void Recognizer::forget() {
  ++epoch_;
  masks_ = 0;
  positions_ = 0;
  nodes_.clear();
  places_.clear();
  stack_ids_.clear();
  stacks_.assign(1, StackNode{});
  place_of({{automaton_.start(), 0}});
}

bool Recognizer::known(Place place) const {
  return place.epoch == epoch_ && place.index >= 0 &&
         place.index < static_cast<int32_t>(nodes_.size());
}

Recognizer::Place Recognizer::place_at(int32_t index) const {
  const Node& node = nodes_[static_cast<size_t>(index)];
  return {epoch_, index, node.may_end, node.may_end && node.positions.empty()};
}

Recognizer::StackId Recognizer::push(StateId state, StackId below) {
  // A return that would at once return again.
  if (automaton_[state].only_final()) {
    return below;
  }
  const auto [found, is_new] =
      stack_ids_.try_emplace(pair_key(state, below), static_cast<StackId>(stacks_.size()));
  if (is_new) {
    stacks_.push_back({state, below});
  }
  return found->second;
}

int32_t Recognizer::place_of(std::vector<Position> reached) {
  std::unordered_set<uint64_t> seen;
  std::vector<Position> positions;
  bool may_end = false;
  while (!reached.empty()) {
    const Position position = reached.back();
    reached.pop_back();
    if (!seen.insert(pair_key(position.state, position.stack)).second) {
      continue;
    }
    if (seen.size() > limits_.positions_of_place) {
      return kTooMany;
    }
    const Automaton::State& state = automaton_[position.state];
    if (!state.bytes.empty()) {
      positions.push_back(position);
    }
    for (const StateId next : state.empties) {
      reached.push_back({next, position.stack});
    }
    for (const Automaton::RuleEdge& edge : state.rules) {
      reached.push_back({edge.start, push(edge.target, position.stack)});
    }
    if (state.final && position.stack == 0) {
      may_end = true;
    } else if (state.final) {
      const StackNode& top = stacks_[static_cast<size_t>(position.stack)];
      reached.push_back({top.state, top.below});
    }
  }
  if (positions.empty() && !may_end) {
    return kDead;
  }
  std::sort(positions.begin(), positions.end());
  // Places that differ only in whether the text may end there are told apart by a last entry.
  positions.push_back({may_end ? 1 : 0, -1});
  const auto [found, is_new] =
      places_.try_emplace(std::move(positions), static_cast<int32_t>(nodes_.size()));
  if (is_new) {
    const std::vector<Position>& kept = found->first;
    positions_ += kept.size();
    Node& node = nodes_.emplace_back();
    node.positions = std::span(kept).first(kept.size() - 1);
    node.may_end = may_end;
    group_bytes(node);
  }
  return found->second;
}

// Cuts 0..255 where an edge begins or ends: between two cuts all bytes take the same edges.
void Recognizer::group_bytes(Node& node) const {
  std::array<bool, 257> cut{};
  std::array<bool, 256> used{};
  for (const Position& position : node.positions) {
    for (const Automaton::ByteEdge& edge : automaton_[position.state].bytes) {
      cut[edge.low] = true;
      cut[edge.high + size_t{1}] = true;
      for (size_t byte = edge.low; byte <= edge.high; ++byte) {
        used[byte] = true;
      }
    }
  }
  node.targets.push_back(kDead);  // group 0: bytes that no edge takes
  node.samples.push_back(0);
  bool open = false;
  for (size_t byte = 0; byte < 256; ++byte) {
    open = open && !cut[byte];
    if (used[byte] && !open) {
      node.targets.push_back(kUnknown);
      node.samples.push_back(static_cast<uint8_t>(byte));
      open = true;
    }
    node.group[byte] = static_cast<uint16_t>(used[byte] ? node.targets.size() - 1 : 0);
  }
}

int32_t Recognizer::compute_step(int32_t from, uint8_t byte) {
  std::vector<Position> reached;
  for (const Position& position : nodes_[static_cast<size_t>(from)].positions) {
    for (const Automaton::ByteEdge& edge : automaton_[position.state].bytes) {
      if (edge.low <= byte && byte <= edge.high) {
        reached.push_back({edge.target, position.stack});
      }
    }
  }
  // Deep inside one look at the vocabulary nothing may be forgotten, so there is a second limit.
  return is_full(kShareWithin) ? kTooMany : place_of(std::move(reached));
}

int32_t Recognizer::step(int32_t from, uint8_t byte) {
  const uint16_t group = nodes_[static_cast<size_t>(from)].group[byte];
  int32_t target = nodes_[static_cast<size_t>(from)].targets[group];
  if (target == kUnknown) {
    target = compute_step(from, nodes_[static_cast<size_t>(from)].samples[group]);
    nodes_[static_cast<size_t>(from)].targets[group] = target;
  }
  return target;
}

Recognizer::Place Recognizer::start() {
  const MutexLock lock(mutex_);
  return place_at(0);
}

std::optional<Result<Recognizer::Place>> Recognizer::advance(Place place, std::string_view text) {
  const MutexLock lock(mutex_);
  if (!known(place)) {
    return std::nullopt;
  }
  int32_t at = place.index;
  for (const char c : text) {
    at = step(at, static_cast<uint8_t>(c));
    if (at == kTooMany && is_full(kShareWithin)) {
      forget();  // others may have filled it: read again, alone
      return std::nullopt;
    }
    if (at == kTooMany) {
      return Result<Place>(too_ambiguous());
    }
    if (at < 0) {
      return Result<Place>(invalid_argument("no text of the grammar goes on like this"));
    }
  }
  return Result<Place>(place_at(at));
}

Result<std::shared_ptr<const TokenMask>> Recognizer::compute_mask(int32_t place) {
  auto mask = std::make_shared<TokenMask>();
  mask->words.resize((static_cast<size_t>(vocabulary_->vocab_size()) + 63) / 64);
  std::array<int32_t, VocabularyTrie::kMaxTokenBytes + 1> path{};
  path[0] = place;
  const std::span<const VocabularyTrie::Node> nodes = vocabulary_->nodes();
  for (size_t i = 0; i < nodes.size();) {
    const VocabularyTrie::Node& node = nodes[i];
    const int32_t next = step(path[node.depth - size_t{1}], node.byte);
    if (next == kTooMany) {
      return too_ambiguous();
    }
    if (next < 0) {
      i = node.end;
      continue;
    }
    path[node.depth] = next;
    for (const TokenId token : vocabulary_->tokens_at(i)) {
      mask->words[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
      mask->any = true;
    }
    ++i;
  }
  return std::shared_ptr<const TokenMask>(std::move(mask));
}

std::optional<Result<std::shared_ptr<const TokenMask>>> Recognizer::mask(Place place,
                                                                         bool may_forget) {
  const MutexLock lock(mutex_);
  if (!known(place)) {
    return std::nullopt;
  }
  if (nodes_[static_cast<size_t>(place.index)].mask == nullptr) {
    if (may_forget && is_full(1)) {
      forget();
      return std::nullopt;
    }
    Result<std::shared_ptr<const TokenMask>> mask = compute_mask(place.index);
    if (!mask.ok() && may_forget) {
      forget();  // others may have filled it: the text is read again, alone
      return std::nullopt;
    }
    if (!mask.ok()) {
      return mask;
    }
    nodes_[static_cast<size_t>(place.index)].mask = *mask;
    ++masks_;
  }
  return Result<std::shared_ptr<const TokenMask>>(nodes_[static_cast<size_t>(place.index)].mask);
}

}  // namespace baton::grammar
