#include "deploy/baton/serve_bench/latency_histogram.h"

#include <algorithm>
#include <cmath>

namespace baton::serve_bench {
namespace {

constexpr double kGrowth = 1.01;
constexpr double kLowestNs = 1e3;
constexpr double kHighestNs = 1e12;

size_t bucket_of(Duration value) {
  const double ns = std::clamp(static_cast<double>(value.count()), kLowestNs, kHighestNs);
  return static_cast<size_t>(std::log(ns / kLowestNs) / std::log(kGrowth));
}

}  // namespace

LatencyHistogram::LatencyHistogram() : buckets_(bucket_of(Duration::max()) + 1) {}

void LatencyHistogram::add(Duration value) {
  ++buckets_[bucket_of(value)];
  ++count_;
  max_ = std::max(max_, value);
  sum_ms_ += to_ms(value);
}

double LatencyHistogram::mean_ms() const {
  return count_ == 0 ? 0 : sum_ms_ / static_cast<double>(count_);
}

Duration LatencyHistogram::percentile(double p) const {
  if (count_ == 0) {
    return Duration::zero();
  }
  const auto rank =
      static_cast<uint64_t>(std::max(1.0, std::ceil(p * static_cast<double>(count_))));
  uint64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= rank) {
      // The middle, by ratio, of the bucket.
      const double ns = kLowestNs * std::pow(kGrowth, static_cast<double>(i) + 0.5);
      return std::min(max_, Duration(static_cast<int64_t>(ns)));
    }
  }
  return max_;
}

}  // namespace baton::serve_bench
