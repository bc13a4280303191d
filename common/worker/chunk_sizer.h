#pragma once

// Measured rates of a worker, smoothed over the last steps: what chunks are sized by and what the
// router predicts with. Used by the worker loop only.

#include <algorithm>

#include "common/base/clock.h"

namespace baton::worker {

// Exponentially weighted mean; the first sample counts whole.
class SmoothedRate {
 public:
  explicit SmoothedRate(double weight = 0.2) : weight_(weight) {}
  void add(double sample) {
    value_ = samples_++ == 0 ? sample : value_ + weight_ * (sample - value_);
  }
  double value() const { return value_; }
  bool empty() const { return samples_ == 0; }

 private:
  double weight_;
  double value_ = 0;
  long samples_ = 0;
};

// How many prompt tokens a step may take so that it lasts about `target`: the time between two
// tokens of every stream that shares the step. Starts careful, then follows the measured rate.
class ChunkSizer {
 public:
  ChunkSizer(Duration target, int max_tokens) : target_(target), max_tokens_(max_tokens) {}

  void observe(int prompt_tokens, double seconds) {
    // Small chunks say little about the rate: fixed costs dominate them.
    if (prompt_tokens >= kGrain && seconds > 0) {
      rate_.add(prompt_tokens / seconds);
    }
  }

  // At least one grain (or max_tokens, if that is less); above it multiples of the grain, so that
  // chunks end at block borders.
  int budget() const {
    if (rate_.empty()) {
      return std::min(max_tokens_, kFirstChunk);
    }
    const double tokens = rate_.value() * to_seconds(target_);
    const int bounded = static_cast<int>(std::min(tokens, static_cast<double>(max_tokens_)));
    return std::min(max_tokens_, std::max(kGrain, bounded / kGrain * kGrain));
  }

  double tokens_per_second() const { return rate_.value(); }

 private:
  static constexpr int kGrain = 32;
  static constexpr int kFirstChunk = 128;
  Duration target_;
  int max_tokens_;
  SmoothedRate rate_;
};

}  // namespace baton::worker
