#pragma once

// Finds stop strings in text that arrives in pieces. The earliest match wins, ties by list order.
// Only the longest suffix that may still become a stop string is held back, so that a stop list
// does not delay the stream.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::router {

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  struct Out {
    std::string text;  // safe to send
    int matched = -1;  // index of the stop string that was found; the text before it is sent
  };
  // Takes more text. Precondition: nothing matched yet. With `enabled` false nothing can match, and
  // everything is let through (min_tokens).
  Out feed(std::string_view text, bool enabled = true);
  // The end: what was held back.
  std::string finish() { return std::exchange(held_, {}); }

 private:
  size_t held_from() const;

  std::vector<std::string> stops_;
  std::string held_;
};

}  // namespace baton::router
