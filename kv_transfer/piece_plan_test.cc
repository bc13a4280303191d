#include "kv_transfer/piece_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "kv_transfer/test_worker.h"

namespace baton::kv_transfer {
namespace {

using kv_cache::HeadRange;
using testing::HasSubstr;

PiecePlan plan_for(const TestShape& p, const TestShape& d) {
  return PiecePlan::make(p.layout(), {p.block_tokens, p.ranks}, {d.block_tokens, d.ranks}).value();
}

std::vector<BlockId> ids(int first, int count) {
  std::vector<BlockId> table(static_cast<size_t>(count));
  std::iota(table.begin(), table.end(), static_cast<BlockId>(first));
  return table;
}

TEST(PiecePlanTest, TheUnitIsTheLargerBlock) {
  TestShape p, d;
  d.block_tokens = 128;
  EXPECT_EQ(plan_for(p, d).unit_tokens(), 128);
  EXPECT_EQ(plan_for(d, p).unit_tokens(), 128);
  EXPECT_EQ(plan_for(p, p).unit_tokens(), 32);
  EXPECT_EQ(plan_for(p, p).pieces(1), 1);
  EXPECT_EQ(plan_for(p, p).pieces(32), 1);
  EXPECT_EQ(plan_for(p, p).pieces(33), 2);
}

TEST(PiecePlanTest, EqualBlocksAndHeadsTravelAsOneSlice) {
  TestShape shape;
  const PiecePlan plan = plan_for(shape, shape);
  TestPools pools(shape);
  const auto pointers = pools.pointers();
  const std::vector<BlockId> table = {5, 9};
  std::vector<std::byte> staging;
  const auto from = plan.gather({1, 0, 0, 2}, {pointers, table, 64}, staging);
  ASSERT_EQ(from.size(), 2u);
  EXPECT_EQ(from[0].data, pools.pool(0).block(1, 5));
  EXPECT_EQ(from[0].bytes, pools.pool(0).block_bytes());
  EXPECT_EQ(from[1].data, pools.pool(0).block(1, 9));
  const auto to = plan.scatter({1, 0, 0, 2}, {pointers, table, 64}, staging);
  ASSERT_EQ(to.size(), 2u);
  EXPECT_EQ(to[1].bytes, plan.piece_bytes(0));
}

TEST(PiecePlanTest, NeighbouringBlocksMerge) {
  TestShape shape;
  const PiecePlan plan = plan_for(shape, shape);
  TestPools pools(shape);
  const auto pointers = pools.pointers();
  std::vector<std::byte> staging;
  const std::vector<BlockId> table = ids(4, 3);
  const auto from = plan.gather({0, 0, 0, 3}, {pointers, table, 96}, staging);
  ASSERT_EQ(from.size(), 1u);
  EXPECT_EQ(from[0].bytes, 3 * pools.pool(0).block_bytes());
}

TEST(PiecePlanTest, AReplicatedHeadComesFromTheLowestRank) {
  TestShape p, d;
  p.ranks = head_ranges(9, 3, 2, 2);
  EXPECT_EQ(p.ranks[0], (HeadRange{0, 2}));
  EXPECT_EQ(p.ranks[1], (HeadRange{1, 3}));
  const PiecePlan plan = plan_for(p, d);
  EXPECT_EQ(plan.source_rank(0), 0);
  EXPECT_EQ(plan.source_rank(1), 0);
  EXPECT_EQ(plan.source_rank(2), 1);
}

// Gathers every piece of a sequence on one side and scatters it on the other.
void expect_everything_arrives(const TestShape& p, const TestShape& d) {
  constexpr int kTokens = 150;
  TestPools from(p), to(d);
  const std::vector<BlockId> table_p = ids(7, from.blocks_for(kTokens));
  const std::vector<BlockId> table_d = ids(20, to.blocks_for(kTokens));
  from.zero_values(table_p);
  from.write(table_p, 3, 0, kTokens);
  const PiecePlan plan = plan_for(p, d);
  const auto pools_p = from.pointers();
  const auto pools_d = to.pointers();
  std::vector<std::byte> spill(from.pool(0).group_bytes());
  uint64_t bytes = 0;
  const auto carry = [&](const PieceRun& run) {
    std::vector<std::byte> staging;
    std::vector<std::byte> wire;
    for (const IoSlice& s : plan.gather(run, {pools_p, table_p, kTokens}, staging)) {
      wire.insert(wire.end(), s.data, s.data + s.bytes);
    }
    EXPECT_EQ(wire.size(), plan.piece_bytes(run.dst_rank));
    const std::byte* at = wire.data();
    for (const IoSlice& s : plan.scatter(run, {pools_d, table_d, kTokens}, spill)) {
      std::memcpy(s.data, at, s.bytes);
      at += s.bytes;
    }
    bytes += wire.size();
  };
  for (int layer = 0; layer < p.layers; ++layer) {
    for (int rank = 0; rank < plan.target_ranks(); ++rank) {
      for (int piece = 0; piece < plan.pieces(kTokens); ++piece) {
        carry({layer, rank, piece, 1});
      }
    }
  }
  EXPECT_EQ(bytes, plan.total_bytes({}, plan.pieces(kTokens)));
  EXPECT_EQ(to.mismatches(table_d, 3, 0, kTokens), 0u);
  EXPECT_EQ(to.nonzero_after(table_d, kTokens), 0u);
}

TEST(PiecePlanTest, EveryByteArrivesForEveryPairOfDegreesAndBlockSizes) {
  for (const int degree_p : {1, 2, 4}) {
    for (const int degree_d : {1, 2, 4}) {
      for (const auto& [block_p, block_d] : std::vector<std::pair<int, int>>{
               {32, 32}, {32, 64}, {32, 128}, {64, 32}, {64, 64}, {64, 128}}) {
        SCOPED_TRACE(testing::Message() << "degrees " << degree_p << ", " << degree_d << ", blocks "
                                        << block_p << ", " << block_d);
        TestShape p, d;
        p.ranks = head_ranges(9, 3, 4, degree_p);
        d.ranks = head_ranges(9, 3, 4, degree_d);
        p.block_tokens = block_p;
        d.block_tokens = block_d;
        p.layers = d.layers = 2;
        expect_everything_arrives(p, d);
      }
    }
  }
}

TEST(PiecePlanTest, ARunFitsAMessage) {
  TestShape shape;
  EXPECT_EQ(plan_for(shape, shape).max_run(0), PiecePlan::kMaxMessageBlocks);
  TestShape huge = shape;
  huge.dim = 1024;
  huge.kv_heads = 32;
  huge.ranks = {{0, 32}};
  EXPECT_EQ(plan_for(huge, huge).max_run(0), 1) << "a piece larger than a message goes alone";
}

TEST(PiecePlanTest, RefusesWhatDoesNotFit) {
  const kv_cache::KvLayout layout = TestShape{}.layout();
  EXPECT_THAT(PiecePlan::make(layout, {32, {{0, 2}}}, {32, {{0, 3}}}).status().message(),
              HasSubstr("KV head 2 is on no rank"));
  EXPECT_THAT(PiecePlan::make(layout, {48, {{0, 3}}}, {32, {{0, 3}}}).status().message(),
              HasSubstr("blocks of 48 tokens"));
  EXPECT_FALSE(PiecePlan::make(layout, {16, {{0, 3}}}, {32, {{0, 3}}}).ok());
  EXPECT_FALSE(PiecePlan::make(layout, {32, {{0, 3}}}, {32, {{0, 4}}}).ok());
  EXPECT_FALSE(PiecePlan::make(layout, {32, {{2, 2}}}, {32, {{0, 3}}}).ok());
  EXPECT_FALSE(PiecePlan::make(layout, {32, {}}, {32, {{0, 3}}}).ok());
}

}  // namespace
}  // namespace baton::kv_transfer
