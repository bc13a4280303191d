#include "common/worker/tombstones.h"

#include <algorithm>

namespace baton::worker {

void Tombstones::bury(RequestId request, uint16_t attempt, TimePoint now) {
  Grave& grave = attempts_[request];
  grave.attempt = std::max(grave.attempt, attempt);
  grave.until = now + keep_;
  order_.push_back({grave.until, request});
  while (order_.size() > limit_) {
    forget_oldest();
  }
}

// A request that was buried again keeps its grave: only its newest entry ends it.
void Tombstones::forget_oldest() {
  const auto it = attempts_.find(order_.front().request);
  if (it != attempts_.end() && it->second.until <= order_.front().until) {
    attempts_.erase(it);
  }
  order_.pop_front();
}

bool Tombstones::refuses(const RunKey& key) const {
  const auto it = attempts_.find(key.request);
  return it != attempts_.end() && key.attempt <= it->second.attempt;
}

void Tombstones::sweep(TimePoint now) {
  while (!order_.empty() && order_.front().until <= now) {
    forget_oldest();
  }
}

}  // namespace baton::worker
