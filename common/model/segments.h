#pragma once

// Tensor parallel is split by segments, not by divisors (docs/adr): a model is cut into S reduction
// segments, whatever the number of ranks, and rank r of T (T divides S) owns the segments
// [r*S/T, (r+1)*S/T). Row-split products are summed segment by segment, so every T gives the same
// bits.
//
//   query heads   segment s = [s*Hq/S, (s+1)*Hq/S), rounded down
//   ffn columns   the same in units of 32, the last unit cut at F
//   vocab rows    the same in units of 16, the last unit cut at V
//   kv heads      of a rank: all that its query heads read, so one may live on two ranks

#include <vector>

#include "common/base/status.h"
#include "common/kv_cache/layout.h"
#include "common/model/description.h"

namespace baton::model {

struct Range {
  int begin = 0;
  int end = 0;
  int count() const { return end - begin; }
  bool empty() const { return begin == end; }
  friend bool operator==(const Range&, const Range&) = default;
};

// Immutable value.
class SegmentPlan final {
 public:
  static constexpr int kMaxSegments = 64;

  // Errors: S outside 1..64, T that does not divide S, a rank that would own no query head, no ffn
  // column or no vocabulary row.
  static Result<SegmentPlan> create(const ModelDescription& description, int segments, int ranks);

  int segments() const { return segments_; }
  int ranks() const { return ranks_; }

  // Of a segment in [0, segments()); may be empty when there are more segments than heads.
  Range query_heads(int segment) const { return cut(heads_, 1, segment, segments_); }
  Range ffn_columns(int segment) const { return cut(ffn_, kFfnUnit, segment, segments_); }
  Range vocab_rows(int segment) const { return cut(vocab_, kVocabUnit, segment, segments_); }

  // Of a rank in [0, ranks()): the union of its segments, never empty.
  Range rank_segments(int rank) const;
  Range rank_query_heads(int rank) const;
  Range rank_ffn_columns(int rank) const;
  Range rank_vocab_rows(int rank) const;
  kv_cache::HeadRange rank_kv_heads(int rank) const;
  // rank_kv_heads of every rank: the head map of the handshake.
  std::vector<kv_cache::HeadRange> head_map() const;

 private:
  static constexpr int kFfnUnit = 32;
  static constexpr int kVocabUnit = 16;

  static Range cut(int size, int unit, int segment, int segments);

  int segments_ = 1;
  int ranks_ = 1;
  int heads_ = 0;
  int heads_per_kv_ = 1;
  int ffn_ = 0;
  int vocab_ = 0;
};

}  // namespace baton::model
