#pragma once

// A grammar as a set of nondeterministic automata, one a rule, over bytes. An edge reads one byte
// of a range, reads nothing, or reads what a rule matches (a push-down automaton: the state after
// the rule is the return address). matcher.h runs it.

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/grammar/expressions.h"

namespace baton::grammar {

using StateId = int32_t;

// Immutable after build(); safe from any number of threads.
class Automaton {
 public:
  static constexpr size_t kMaxStates = 100'000;

  struct ByteEdge {
    uint8_t low = 0, high = 0;
    StateId target = 0;
  };
  struct RuleEdge {
    StateId start = 0;  // of the rule
    StateId target = 0;
  };
  struct State {
    std::vector<ByteEdge> bytes;
    std::vector<StateId> empties;
    std::vector<RuleEdge> rules;
    bool final = false;  // its rule may end here
    // Nothing leads away from it: a call that would return here may return to the caller's caller,
    // so that lists which recur at their end keep a flat stack.
    bool only_final() const { return final && bytes.empty() && empties.empty() && rules.empty(); }
  };

  // Rule 0 is the whole text. invalid_argument: a rule that is undefined, or that begins with
  // itself; resource_exhausted: too large.
  static Result<Automaton> build(const Expressions& expressions);

  const State& operator[](StateId id) const { return states_[static_cast<size_t>(id)]; }
  size_t size() const { return states_.size(); }
  StateId start() const { return starts_[0]; }

 private:
  struct Fragment {
    StateId in = 0, out = 0;
  };
  StateId new_state();
  Fragment add(const Expressions& expressions, ExprId id);
  Fragment add_repeat(const Expressions& expressions, const Expression& repeat);
  void link(StateId from, StateId to);
  StateId first_that_matters(StateId state) const;
  void shorten_edges();
  Status check_recursion() const;

  std::vector<State> states_;
  std::vector<StateId> starts_;  // by rule
  bool full_ = false;
};

}  // namespace baton::grammar
