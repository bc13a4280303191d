#include "router/api/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace baton::router {

StopMatcher::Out StopMatcher::feed(std::string_view text, bool enabled) {
  held_ += text;
  Out out;
  if (!enabled || stops_.empty()) {
    out.text = std::exchange(held_, {});
    return out;
  }
  size_t at = std::string::npos;
  for (size_t i = 0; i < stops_.size(); ++i) {
    const size_t found = held_.find(stops_[i]);
    if (found < at) {
      at = found;
      out.matched = static_cast<int>(i);
    }
  }
  const size_t sent = out.matched >= 0 ? at : held_from();
  out.text = held_.substr(0, sent);
  held_.erase(0, out.matched >= 0 ? held_.size() : sent);
  return out;
}

// Where the longest suffix begins that is a proper prefix of a stop string.
size_t StopMatcher::held_from() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > longest; --n) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, n))) {
        longest = n;
        break;
      }
    }
  }
  return held_.size() - longest;
}

}  // namespace baton::router
