#include "kv_transfer/quarantine.h"

namespace baton::kv_transfer {

std::vector<uint64_t> Quarantine::overdue(TimePoint now) {
  std::vector<uint64_t> found;
  for (auto& [reservation, entry] : inside_) {
    if (!entry.told && now - entry.since > alarm_after_) {
      entry.told = true;
      found.push_back(reservation);
    }
  }
  return found;
}

}  // namespace baton::kv_transfer
