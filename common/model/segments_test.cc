#include "common/model/segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace baton::model {
namespace {

using kv_cache::HeadRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelDescription model_of(int heads, int kv_heads, int ffn, int vocab) {
  ModelDescription d;
  d.heads = heads;
  d.kv_heads = kv_heads;
  d.ffn = ffn;
  d.vocab = vocab;
  return d;
}

TEST(SegmentsTest, SmolLm2AtDegreeTwoSharesTheMiddleKvHead) {
  const auto plan = SegmentPlan::create(model_of(9, 3, 1536, 49152), 2, 2);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->rank_query_heads(0), (Range{0, 4}));
  EXPECT_EQ(plan->rank_query_heads(1), (Range{4, 9}));
  EXPECT_THAT(plan->head_map(), ElementsAre(HeadRange{0, 2}, HeadRange{1, 3}));
  EXPECT_EQ(plan->rank_ffn_columns(1), (Range{768, 1536}));
  EXPECT_EQ(plan->rank_vocab_rows(0), (Range{0, 24576}));
}

TEST(SegmentsTest, CutsTheLastUnitAtTheEnd) {
  const auto plan = SegmentPlan::create(model_of(4, 4, 100, 313), 4, 4);
  ASSERT_TRUE(plan.ok());
  // 4 units of 32 columns, 20 units of 16 rows.
  EXPECT_EQ(plan->ffn_columns(0), (Range{0, 32}));
  EXPECT_EQ(plan->ffn_columns(3), (Range{96, 100}));
  EXPECT_EQ(plan->vocab_rows(0), (Range{0, 80}));
  EXPECT_EQ(plan->vocab_rows(3), (Range{240, 313}));
}

TEST(SegmentsTest, SegmentsMayBeEmptyButRanksMayNot) {
  const auto plan = SegmentPlan::create(model_of(3, 1, 64, 64), 8, 2);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->query_heads(0).empty());
  EXPECT_EQ(plan->query_heads(2), (Range{0, 1}));
  EXPECT_EQ(plan->rank_query_heads(0), (Range{0, 1}));
  const auto refused = SegmentPlan::create(model_of(3, 1, 4096, 4096), 4, 4);
  EXPECT_EQ(refused.status().to_string(),
            "invalid_argument: tensor parallel degree 4 is too high for a model of 3 query heads, "
            "4096 ffn columns and 4096 tokens: rank 0 would have nothing to do");
}

TEST(SegmentsTest, RefusesDegreesThatDoNotDivide) {
  const auto model = model_of(8, 8, 1024, 1024);
  EXPECT_THAT(SegmentPlan::create(model, 2, 4).status().message(), HasSubstr("does not divide"));
  EXPECT_THAT(SegmentPlan::create(model, 3, 2).status().message(), HasSubstr("does not divide"));
  EXPECT_THAT(SegmentPlan::create(model, 2, 0).status().message(), HasSubstr("does not divide"));
  EXPECT_THAT(SegmentPlan::create(model, 0, 1).status().message(), HasSubstr("1 to 64"));
  EXPECT_THAT(SegmentPlan::create(model, 65, 1).status().message(), HasSubstr("1 to 64"));
}

TEST(SegmentsTest, RandomPlansPartitionEverythingAtEveryDegree) {
  constexpr unsigned kSeed = 20;
  std::mt19937 random(kSeed);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 500; ++round) {
    const int kv_heads = pick(1, 8);
    const auto model = model_of(kv_heads * pick(1, 6), kv_heads, pick(200, 5000), pick(100, 70000));
    const int segments = 4 * pick(1, 3);
    for (const int ranks : {1, 2, 4}) {
      const auto plan = SegmentPlan::create(model, segments, ranks);
      if (!plan.ok()) {
        EXPECT_LT(model.heads, segments) << "seed " << kSeed << " round " << round;
        continue;
      }
      Range heads;
      Range ffn;
      Range vocab;
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(plan->rank_query_heads(rank).begin, heads.end);
        EXPECT_EQ(plan->rank_ffn_columns(rank).begin, ffn.end);
        EXPECT_EQ(plan->rank_vocab_rows(rank).begin, vocab.end);
        heads = plan->rank_query_heads(rank);
        ffn = plan->rank_ffn_columns(rank);
        vocab = plan->rank_vocab_rows(rank);
        EXPECT_EQ(ffn.begin % 32, 0);
        EXPECT_EQ(vocab.begin % 16, 0);
        const auto kv = plan->rank_kv_heads(rank);
        EXPECT_EQ(kv.begin, heads.begin / model.heads_per_kv());
        EXPECT_EQ(kv.end, (heads.end - 1) / model.heads_per_kv() + 1);
      }
      EXPECT_EQ(heads.end, model.heads);
      EXPECT_EQ(ffn.end, model.ffn);
      EXPECT_EQ(vocab.end, model.vocab);
    }
  }
}

}  // namespace
}  // namespace baton::model
