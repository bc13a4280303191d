#pragma once

// Percentiles of any number of durations in 17 KiB. Each bucket is 1 % wider than the one before,
// so that a percentile is off by at most 0.5 %; the maximum is exact. Below 1 us all count as 1 us,
// above 1,000 s as 1,000 s.

#include <cstdint>
#include <vector>

#include "common/base/clock.h"

namespace baton::serve_bench {

class LatencyHistogram {
 public:
  LatencyHistogram();
  void add(Duration value);
  uint64_t count() const { return count_; }
  Duration max() const { return max_; }
  double mean_ms() const;
  // Nearest rank: the value that a share of `p` (0..1) of all is not above. Zero when empty.
  Duration percentile(double p) const;

 private:
  std::vector<uint64_t> buckets_;
  uint64_t count_ = 0;
  Duration max_{};
  double sum_ms_ = 0;
};

}  // namespace baton::serve_bench
