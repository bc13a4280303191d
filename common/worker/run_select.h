#pragma once

// Picks runs out of a role's table before anything is done to them: ending a run changes the table.

#include <memory>
#include <unordered_map>
#include <vector>

namespace baton::worker {

// The runs that `wanted` accepts, in no order. They stay valid until the table drops them.
template <typename Key, typename Run, typename Predicate>
std::vector<Run*> select_runs(const std::unordered_map<Key, std::unique_ptr<Run>>& runs,
                              const Predicate& wanted) {
  std::vector<Run*> selected;
  for (const auto& [key, run] : runs) {
    if (wanted(*run)) {
      selected.push_back(run.get());
    }
  }
  return selected;
}

}  // namespace baton::worker
