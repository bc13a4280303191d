#include "common/sampling/logprobs.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace baton::sampling {
namespace {

TEST(LogprobsTest, RankCountsWhatComesBefore) {
  Scratch scratch;
  const std::vector<float> row = {1.0f, 3.0f, 3.0f, 0.0f};
  for (const auto& [id, rank] :
       std::vector<std::pair<TokenId, int>>{{1, 1}, {2, 2}, {0, 3}, {3, 4}}) {
    EXPECT_EQ(token_logprobs(row, id, 2, scratch)->rank, rank) << id;
  }
}

}  // namespace
}  // namespace baton::sampling
