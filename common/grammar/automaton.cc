#include "common/grammar/automaton.h"

#include <algorithm>
#include <string>
#include <utility>

namespace baton::grammar {
namespace {

enum class Color : uint8_t { kWhite, kGrey, kBlack };

// Walks over edges that read nothing, within a bound on all walks together.
class EmptyReach {
 public:
  static constexpr size_t kMaxSteps = 20'000'000;

  explicit EmptyReach(std::span<const Automaton::State> states)
      : states_(states), seen_(states.size()) {}

  // States reached from `from` without reading, given which rules (by start) match nothing.
  const std::vector<StateId>& closure(StateId from, const std::vector<bool>& nullable) {
    ++stamp_;
    out_.clear();
    visit(from);
    for (size_t i = 0; i < out_.size(); ++i) {
      const Automaton::State& state = states_[static_cast<size_t>(out_[i])];
      for (const StateId to : state.empties) {
        visit(to);
      }
      for (const Automaton::RuleEdge& edge : state.rules) {
        if (nullable[static_cast<size_t>(edge.start)]) {
          visit(edge.target);
        }
      }
    }
    steps_ += out_.size();
    return out_;
  }
  bool exhausted() const { return steps_ > kMaxSteps; }

 private:
  void visit(StateId to) {
    uint32_t& seen = seen_[static_cast<size_t>(to)];
    if (seen != stamp_) {
      seen = stamp_;
      out_.push_back(to);
    }
  }

  std::span<const Automaton::State> states_;
  std::vector<uint32_t> seen_;
  std::vector<StateId> out_;
  uint32_t stamp_ = 0;
  size_t steps_ = 0;
};

// Whether a walk along `next` (by node, from any of `roots`) comes back to a node of its own path.
bool has_cycle(const std::vector<StateId>& roots, const std::vector<std::vector<StateId>>& next) {
  std::vector<Color> color(next.size(), Color::kWhite);
  for (const StateId root : roots) {
    if (color[static_cast<size_t>(root)] != Color::kWhite) {
      continue;
    }
    std::vector<std::pair<StateId, size_t>> path = {{root, 0}};
    color[static_cast<size_t>(root)] = Color::kGrey;
    while (!path.empty()) {
      auto& [node, done] = path.back();
      if (done == next[static_cast<size_t>(node)].size()) {
        color[static_cast<size_t>(node)] = Color::kBlack;
        path.pop_back();
        continue;
      }
      const StateId child = next[static_cast<size_t>(node)][done++];
      Color& seen = color[static_cast<size_t>(child)];
      if (seen == Color::kGrey) {
        return true;
      }
      if (seen == Color::kWhite) {
        seen = Color::kGrey;
        path.emplace_back(child, 0);
      }
    }
  }
  return false;
}

}  // namespace

StateId Automaton::new_state() {
  if (states_.size() >= kMaxStates) {
    full_ = true;
    return 0;
  }
  states_.emplace_back();
  return static_cast<StateId>(states_.size() - 1);
}

void Automaton::link(StateId from, StateId to) {
  states_[static_cast<size_t>(from)].empties.push_back(to);
}

Automaton::Fragment Automaton::add_repeat(const Expressions& expressions,
                                          const Expression& repeat) {
  const StateId in = new_state();
  StateId at = in;
  for (int32_t i = 0; i < repeat.min && !full_; ++i) {
    const Fragment part = add(expressions, repeat.children[0]);
    link(at, part.in);
    at = part.out;
  }
  if (repeat.max < 0) {
    const StateId loop = new_state();
    const Fragment part = add(expressions, repeat.children[0]);
    link(at, loop);
    link(loop, part.in);
    link(part.out, loop);
    return {in, loop};
  }
  const StateId out = new_state();
  for (int32_t i = repeat.min; i < repeat.max && !full_; ++i) {
    link(at, out);
    const Fragment part = add(expressions, repeat.children[0]);
    link(at, part.in);
    at = part.out;
  }
  link(at, out);
  return {in, out};
}

// Recursion is as deep as expressions are nested, which their readers bound.
Automaton::Fragment Automaton::add(const Expressions& expressions, ExprId id) {
  const Expression& expression = expressions[id];
  if (full_) {
    return {};
  }
  switch (expression.kind) {
    case Expression::Kind::kRepeat:
      return add_repeat(expressions, expression);
    case Expression::Kind::kConcat: {
      const StateId in = new_state();
      StateId at = in;
      for (const ExprId child : expression.children) {
        const Fragment part = add(expressions, child);
        link(at, part.in);
        at = part.out;
      }
      return {in, at};
    }
    case Expression::Kind::kAlt: {
      const StateId in = new_state();
      const StateId out = new_state();
      for (const ExprId child : expression.children) {
        const Fragment part = add(expressions, child);
        link(in, part.in);
        link(part.out, out);
      }
      return {in, out};
    }
    case Expression::Kind::kEmpty:
    case Expression::Kind::kBytes:
    case Expression::Kind::kRule:
      break;
  }
  const StateId in = new_state();
  const StateId out = new_state();
  State& from = states_[static_cast<size_t>(in)];
  if (expression.kind == Expression::Kind::kBytes) {
    from.bytes.push_back({expression.low, expression.high, out});
  } else if (expression.kind == Expression::Kind::kRule) {
    from.rules.push_back({starts_[static_cast<size_t>(expression.rule)], out});
  } else {
    from.empties.push_back(out);
  }
  return {in, out};
}

// Past states that do nothing but lead on to one other.
StateId Automaton::first_that_matters(StateId id) const {
  for (size_t steps = 0; steps < states_.size(); ++steps) {
    const State& state = (*this)[id];
    if (state.final || !state.bytes.empty() || !state.rules.empty() || state.empties.size() != 1) {
      break;
    }
    id = state.empties[0];
  }
  return id;
}

void Automaton::shorten_edges() {
  for (State& state : states_) {
    for (ByteEdge& edge : state.bytes) {
      edge.target = first_that_matters(edge.target);
    }
    for (RuleEdge& edge : state.rules) {
      edge.target = first_that_matters(edge.target);
    }
    for (StateId& target : state.empties) {
      target = first_that_matters(target);
    }
  }
}

// A rule that begins with itself could be entered without end before a byte is read.
Status Automaton::check_recursion() const {
  EmptyReach reach(states_);
  std::vector<bool> nullable(states_.size());  // by start state
  for (bool grew = true; grew && !reach.exhausted();) {
    grew = false;
    for (const StateId start : starts_) {
      if (nullable[static_cast<size_t>(start)]) {
        continue;
      }
      const std::vector<StateId>& states = reach.closure(start, nullable);
      const bool ends = std::any_of(states.begin(), states.end(),
                                    [this](StateId state) { return (*this)[state].final; });
      nullable[static_cast<size_t>(start)] = ends;
      grew |= ends;
    }
  }
  std::vector<std::vector<StateId>> first(states_.size());  // which rule begins with which
  for (const StateId start : starts_) {
    for (const StateId state : reach.closure(start, nullable)) {
      for (const RuleEdge& edge : (*this)[state].rules) {
        first[static_cast<size_t>(start)].push_back(edge.start);
      }
    }
  }
  if (reach.exhausted()) {
    return resource_exhausted(
        "the grammar is too complex: its rules refer to each other too often");
  }
  if (has_cycle(starts_, first)) {
    return invalid_argument(
        "a rule of the grammar begins with itself (left recursion); write the repetition with * "
        "or put the recursion at the end");
  }
  return Status();
}

Result<Automaton> Automaton::build(const Expressions& expressions) {
  BATON_RETURN_IF_ERROR(expressions.status());
  Automaton automaton;
  for (size_t i = 0; i < expressions.rules().size(); ++i) {
    automaton.starts_.push_back(automaton.new_state());
  }
  for (size_t i = 0; i < expressions.rules().size(); ++i) {
    const ExprId body = expressions.rules()[i];
    if (body < 0) {
      return invalid_argument("rule " + std::to_string(i) + " of the grammar is not defined");
    }
    const Fragment part = automaton.add(expressions, body);
    automaton.link(automaton.starts_[i], part.in);
    automaton.states_[static_cast<size_t>(part.out)].final = true;
  }
  if (automaton.full_) {
    return resource_exhausted("the grammar is too large: more than " + std::to_string(kMaxStates) +
                              " states");
  }
  automaton.shorten_edges();
  BATON_RETURN_IF_ERROR(automaton.check_recursion());
  return automaton;
}

}  // namespace baton::grammar
