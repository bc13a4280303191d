#include "common/sampling/candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "common/base/random.h"
#include "common/sampling/row_ops.h"

namespace baton::sampling {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> maxima_of(const std::vector<float>& row) {
  std::vector<float> maxima(static_cast<size_t>(chunk_count(static_cast<int>(row.size()))));
  row_ops(device::Isa::kScalar).maxima_of(row.data(), static_cast<int>(row.size()), maxima.data());
  return maxima;
}

std::vector<TokenId> sorted_ids(const std::vector<float>& row) {
  std::vector<TokenId> ids(row.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<TokenId>(i);
  }
  std::stable_sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) {
    return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
  });
  return ids;
}

std::vector<TokenId> ids_of(const Scratch& scratch) {
  std::vector<TokenId> ids;
  for (const Candidate& c : scratch.candidates) {
    ids.push_back(c.id);
  }
  return ids;
}

// Rows with many ties, both zeros and infinities.
std::vector<float> row_with_ties(SeededRandom& random, size_t n) {
  std::vector<float> row(n);
  for (float& x : row) {
    const uint64_t r = random.next();
    const auto level = static_cast<float>(static_cast<int>(r % 41) - 20);
    x = r % 97 == 0 ? -kInf : r % 31 == 0 ? -0.0f : r % 7 == 0 ? level + 0x1p-20f : level;
  }
  return row;
}

TEST(CandidatesTest, SelectsExactlyTheFirstKByValueThenId) {
  SeededRandom random(3);
  Scratch scratch;
  for (const size_t n : {size_t{1}, size_t{64}, size_t{65}, size_t{1000}, size_t{20'000}}) {
    const std::vector<float> row = row_with_ties(random, n);
    const std::vector<TokenId> sorted = sorted_ids(row);
    const std::vector<float> maxima = maxima_of(row);
    for (const size_t k : {size_t{1}, size_t{2}, size_t{50}, size_t{300}, size_t{2047},
                           size_t{2048}, size_t{5000}, size_t{50'000}}) {
      select_top(row, maxima, k, scratch);
      const std::vector<TokenId> expected(
          sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(std::min(k, n)));
      ASSERT_EQ(ids_of(scratch), expected) << n << " " << k;
    }
  }
}

TEST(CandidatesTest, SelectsEverythingFromAThreshold) {
  SeededRandom random(4);
  Scratch scratch;
  const std::vector<float> row = row_with_ties(random, 5000);
  const std::vector<TokenId> sorted = sorted_ids(row);
  for (const float threshold : {25.0f, 20.0f, 0.0f, -3.5f, -kInf}) {
    select_from(row, maxima_of(row), threshold, scratch);
    std::vector<TokenId> expected;
    std::copy_if(sorted.begin(), sorted.end(), std::back_inserter(expected),
                 [&](TokenId id) { return row[static_cast<size_t>(id)] >= threshold; });
    EXPECT_EQ(ids_of(scratch), expected);
  }
}

TEST(CandidatesTest, TopPKeepsTheTokenThatCrossesAndAtLeastOne) {
  const std::vector<float> weights = {0.5f, 0.25f, 0.125f, 0.125f};
  double kept = 0;
  EXPECT_EQ(top_p_prefix(weights, 0.0, 1.0, kept), 1u);
  EXPECT_EQ(top_p_prefix(weights, 0.5, 1.0, kept), 1u);
  EXPECT_EQ(top_p_prefix(weights, 0.51, 1.0, kept), 2u);
  EXPECT_EQ(kept, 0.75);
  EXPECT_EQ(top_p_prefix(weights, 1.0, 1.0, kept), 4u);
  EXPECT_EQ(top_p_prefix(weights, 1.0, 1.5, kept), 4u);
}

TEST(CandidatesTest, DrawsTheFirstWhoseSumExceedsAndNeverAWeightOfZero) {
  const std::vector<float> weights = {0.0f, 0.5f, 0.0f, 0.5f, 0.0f};
  EXPECT_EQ(draw_in_order(weights, 0.0, 1.0), 1u);
  EXPECT_EQ(draw_in_order(weights, 0.49, 1.0), 1u);
  EXPECT_EQ(draw_in_order(weights, 0.5, 1.0), 3u);
  EXPECT_EQ(draw_in_order(weights, 0.99, 1.0), 3u);
  // Rounding left none: the last one that can be.
  EXPECT_EQ(draw_in_order(weights, 0.99, 2.0), 3u);
}

TEST(CandidatesTest, DrawsInBlocksAsInOrderWhenSumsAreExact) {
  std::vector<float> weights(1500, 0.0f);
  for (size_t i = 3; i < weights.size(); i += 7) {
    weights[i] = 1.0f;
  }
  std::vector<float> sums(3, 0.0f);
  for (size_t i = 0; i < weights.size(); ++i) {
    sums[i / kBlock] += weights[i];
  }
  const double total = sum_in_order(sums);
  for (int step = 0; step < 1000; ++step) {
    const double u = step / 1000.0;
    ASSERT_EQ(draw_in_blocks(weights, sums, u, total), draw_in_order(weights, u, total)) << u;
  }
}

}  // namespace
}  // namespace baton::sampling
