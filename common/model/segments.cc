#include "common/model/segments.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace baton::model {

Range SegmentPlan::cut(int size, int unit, int segment, int segments) {
  // 64 bit: sizes come from a file, and segment * units may pass 2^31.
  const int64_t units = (static_cast<int64_t>(size) + unit - 1) / unit;
  const auto edge = [&](int64_t s) {
    return static_cast<int>(std::min<int64_t>(size, unit * (s * units / segments)));
  };
  return {edge(segment), edge(segment + 1)};
}

Result<SegmentPlan> SegmentPlan::create(const ModelDescription& description, int segments,
                                        int ranks) {
  if (segments < 1 || segments > kMaxSegments) {
    return invalid_argument("reduction_segments is " + std::to_string(segments) +
                            "; it must be 1 to " + std::to_string(kMaxSegments));
  }
  if (ranks < 1 || segments % ranks != 0) {
    return invalid_argument("tensor parallel degree " + std::to_string(ranks) +
                            " does not divide reduction_segments " + std::to_string(segments));
  }
  SegmentPlan plan;
  plan.segments_ = segments;
  plan.ranks_ = ranks;
  plan.heads_ = description.heads;
  plan.heads_per_kv_ = description.heads_per_kv();
  plan.ffn_ = description.ffn;
  plan.vocab_ = description.vocab;
  for (int rank = 0; rank < ranks; ++rank) {
    if (plan.rank_query_heads(rank).empty() || plan.rank_ffn_columns(rank).empty() ||
        plan.rank_vocab_rows(rank).empty()) {
      return invalid_argument("tensor parallel degree " + std::to_string(ranks) +
                              " is too high for a model of " + std::to_string(plan.heads_) +
                              " query heads, " + std::to_string(plan.ffn_) + " ffn columns and " +
                              std::to_string(plan.vocab_) + " tokens: rank " +
                              std::to_string(rank) + " would have nothing to do");
    }
  }
  return plan;
}

Range SegmentPlan::rank_segments(int rank) const {
  const int per_rank = segments_ / ranks_;
  return {rank * per_rank, (rank + 1) * per_rank};
}

Range SegmentPlan::rank_query_heads(int rank) const {
  const Range own = rank_segments(rank);
  return {query_heads(own.begin).begin, query_heads(own.end - 1).end};
}

Range SegmentPlan::rank_ffn_columns(int rank) const {
  const Range own = rank_segments(rank);
  return {ffn_columns(own.begin).begin, ffn_columns(own.end - 1).end};
}

Range SegmentPlan::rank_vocab_rows(int rank) const {
  const Range own = rank_segments(rank);
  return {vocab_rows(own.begin).begin, vocab_rows(own.end - 1).end};
}

kv_cache::HeadRange SegmentPlan::rank_kv_heads(int rank) const {
  const Range heads = rank_query_heads(rank);
  return {heads.begin / heads_per_kv_, (heads.end + heads_per_kv_ - 1) / heads_per_kv_};
}

std::vector<kv_cache::HeadRange> SegmentPlan::head_map() const {
  std::vector<kv_cache::HeadRange> map;
  map.reserve(static_cast<size_t>(ranks_));
  for (int rank = 0; rank < ranks_; ++rank) {
    map.push_back(rank_kv_heads(rank));
  }
  return map;
}

}  // namespace baton::model
