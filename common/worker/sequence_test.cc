#include "common/worker/sequence.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>

namespace baton::worker {
namespace {

constexpr int kBlock = 4;

std::vector<TokenId> numbered(int count, TokenId first = 0) {
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

kv_cache::BlockPools::Options one_group(int blocks) {
  return {.groups = {{.layers = 1}},
          .blocks = {blocks},
          .block_tokens = kBlock,
          .prefix_cache = true,
          .root = {}};
}

// A full group, and one of windows of 6 tokens: a query sees parts of at most 3 blocks.
kv_cache::BlockPools::Options two_groups(int blocks, int window_blocks) {
  kv_cache::BlockPools::Options options = one_group(blocks);
  options.groups.push_back({.kind = kv_cache::CacheKind::kWindow, .layers = 1, .window = 6});
  options.blocks.push_back(window_blocks);
  return options;
}

class SequenceTest : public testing::Test {
 protected:
  kv_cache::BlockPools pools_{one_group(8)};
  kv_cache::BlockPool& pool_ = pools_.pool(0);
  engine::BatchPlan plan_;
};

TEST_F(SequenceTest, FeedsChunksAndSamplesOnlyTheLast) {
  Sequence sequence(SequenceId{1}, numbered(10));
  engine::SequencePlan* first = sequence.feed(6, pools_, plan_).value();
  EXPECT_EQ(first->tokens, numbered(6));
  EXPECT_EQ(first->first_position, 0);
  EXPECT_EQ(first->blocks.size(), 2u);
  EXPECT_EQ(first->logits, engine::LogitsWanted::kNone);
  EXPECT_EQ(plan_.zero_values.size(), 2u);
  sequence.fed(6, pools_, "");
  EXPECT_EQ(sequence.computed(), 6);

  plan_ = {};
  engine::SequencePlan* last = sequence.feed(4, pools_, plan_).value();
  EXPECT_EQ(last->tokens, numbered(4, 6));
  EXPECT_EQ(last->first_position, 6);
  EXPECT_EQ(last->blocks.size(), 3u);
  EXPECT_EQ(last->logits, engine::LogitsWanted::kLast);
  EXPECT_EQ(plan_.zero_values, std::vector<BlockId>{last->blocks[2]}) << "only what is new";
  sequence.fed(4, pools_, "");
  EXPECT_EQ(sequence.pending(), 0);
  sequence.append(99);
  EXPECT_EQ(sequence.pending(), 1);
}

TEST_F(SequenceTest, ChangesNothingWhenBlocksRunOut) {
  Sequence hog(SequenceId{1}, numbered(7 * kBlock));
  ASSERT_TRUE(hog.reserve(7 * kBlock, pools_).ok());
  Sequence sequence(SequenceId{2}, numbered(5));
  EXPECT_EQ(sequence.feed(5, pools_, plan_).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(plan_.sequences.empty());
  EXPECT_TRUE(plan_.zero_values.empty());
  EXPECT_TRUE(sequence.blocks().empty());
  EXPECT_EQ(sequence.reserve(5, pools_).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(sequence.feed(4, pools_, plan_).ok()) << "one block is left";
}

TEST_F(SequenceTest, CopiesAPartOfABlockOnceAndHoldsItUntilThen) {
  Sequence other(SequenceId{1}, numbered(8));
  ASSERT_TRUE(other.feed(8, pools_, plan_).ok());
  other.fed(8, pools_, "");
  const BlockId source = other.blocks()[1];

  std::vector<TokenId> tokens = numbered(12);
  tokens[7] = 99;
  Sequence sequence(SequenceId{2}, tokens);
  kv_cache::BlockPools::Hit hit = pools_.match(tokens, 11);
  ASSERT_EQ(hit.tokens, 4);
  kv_cache::BlockPools::Part part = pools_.match_part(tokens, hit, 11);
  sequence.adopt(std::move(hit.blocks), hit.tokens);
  ASSERT_TRUE(sequence.reserve(12, pools_).ok());
  sequence.copy_part(std::move(part));
  other.drop_kv();
  EXPECT_EQ(sequence.computed(), 7);
  EXPECT_EQ(sequence.stored(), 4) << "the copy is yet to be made";
  EXPECT_EQ(pool_.counts().active, 4) << "three of its own, and the source";

  plan_ = {};
  const engine::SequencePlan* entry = sequence.feed(2, pools_, plan_).value();
  EXPECT_EQ(entry->first_position, 7);
  EXPECT_EQ(entry->tokens, (std::vector<TokenId>{99, 8}));
  ASSERT_EQ(plan_.copies.size(), 1u);
  EXPECT_EQ(plan_.copies[0].from, source);
  EXPECT_EQ(plan_.copies[0].to, sequence.blocks()[1]);
  EXPECT_EQ(plan_.zero_values, std::vector<BlockId>{sequence.blocks()[2]});
  sequence.fed(2, pools_, "");
  EXPECT_EQ(sequence.stored(), 9);
  EXPECT_EQ(pool_.counts().active, 3);

  plan_ = {};
  ASSERT_TRUE(sequence.feed(3, pools_, plan_).ok());
  EXPECT_TRUE(plan_.copies.empty());
  EXPECT_EQ(pools_.peek(tokens, 12), 8) << "its block is in the cache beside the source";
}

TEST_F(SequenceTest, CleansReservedBlocksOnceAndAdoptedOnesNever) {
  Sequence sequence(SequenceId{1}, numbered(9));
  kv_cache::Leases hit;
  hit[0] = pool_.allocate(1).value();
  sequence.adopt(std::move(hit), 4);
  ASSERT_TRUE(sequence.reserve(9, pools_).ok());
  const std::vector<BlockId> table(sequence.blocks().begin(), sequence.blocks().end());
  ASSERT_TRUE(sequence.feed(1, pools_, plan_).ok());
  EXPECT_EQ(plan_.zero_values, (std::vector<BlockId>{table[1], table[2]}));
  sequence.fed(1, pools_, "");
  plan_ = {};
  ASSERT_TRUE(sequence.feed(4, pools_, plan_).ok());
  EXPECT_TRUE(plan_.zero_values.empty());
}

TEST_F(SequenceTest, PublishesFullBlocksForOthers) {
  Sequence sequence(SequenceId{1}, numbered(10));
  ASSERT_TRUE(sequence.feed(10, pools_, plan_).ok());
  EXPECT_EQ(pools_.peek(numbered(10), 10, "s"), 0);
  sequence.fed(10, pools_, "s");
  EXPECT_EQ(pools_.peek(numbered(10), 10, "s"), 8);
  EXPECT_EQ(pools_.peek(numbered(10), 10, "other"), 0);
}

TEST_F(SequenceTest, DroppedKvIsComputedAgain) {
  Sequence sequence(SequenceId{1}, numbered(6));
  ASSERT_TRUE(sequence.feed(6, pools_, plan_).ok());
  sequence.fed(6, pools_, "");
  sequence.append(50);
  sequence.drop_kv();
  EXPECT_EQ(pool_.available(), 8);
  EXPECT_EQ(sequence.pending(), 7);
  plan_ = {};
  EXPECT_EQ(sequence.feed(7, pools_, plan_).value()->first_position, 0);
  EXPECT_EQ(plan_.zero_values.size(), 2u);
}

TEST_F(SequenceTest, AForkSharesFullBlocksAndCopiesThePartialOne) {
  Sequence base(SequenceId{1}, numbered(6));
  ASSERT_TRUE(base.feed(6, pools_, plan_).ok());
  base.fed(6, pools_, "");
  plan_ = {};
  Result<Sequence> sibling = base.fork(SequenceId{2}, pools_, plan_);
  ASSERT_TRUE(sibling.ok());
  EXPECT_EQ(sibling->computed(), 6);
  EXPECT_EQ(sibling->blocks()[0], base.blocks()[0]);
  EXPECT_NE(sibling->blocks()[1], base.blocks()[1]);
  ASSERT_EQ(plan_.copies.size(), 1u);
  EXPECT_EQ(plan_.copies[0].from, base.blocks()[1]);
  EXPECT_EQ(plan_.copies[0].to, sibling->blocks()[1]);
  sibling->append(7);
  engine::BatchPlan next;
  EXPECT_TRUE(sibling->feed(1, pools_, next).ok());
  EXPECT_TRUE(next.zero_values.empty()) << "the copy must not be wiped";
}

TEST_F(SequenceTest, AForkAtABlockBorderCopiesNothing) {
  Sequence base(SequenceId{1}, numbered(8));
  ASSERT_TRUE(base.feed(8, pools_, plan_).ok());
  base.fed(8, pools_, "");
  Sequence hog(SequenceId{3}, numbered(6 * kBlock));
  ASSERT_TRUE(hog.reserve(6 * kBlock, pools_).ok());
  Result<Sequence> sibling = base.fork(SequenceId{2}, pools_, plan_);
  ASSERT_TRUE(sibling.ok());
  EXPECT_TRUE(plan_.copies.empty());
  EXPECT_EQ(sibling->blocks().size(), 2u);
}

TEST_F(SequenceTest, AForkWithoutABlockForItsCopyFailsAndKeepsNothing) {
  Sequence base(SequenceId{1}, numbered(6));
  ASSERT_TRUE(base.feed(6, pools_, plan_).ok());
  base.fed(6, pools_, "");
  Sequence hog(SequenceId{3}, numbered(6 * kBlock));
  ASSERT_TRUE(hog.reserve(6 * kBlock, pools_).ok());
  EXPECT_EQ(base.fork(SequenceId{2}, pools_, plan_).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_TRUE(plan_.copies.empty());
}

class WindowSequenceTest : public testing::Test {
 protected:
  kv_cache::BlockPools pools_{two_groups(16, 6)};
  engine::BatchPlan plan_;
};

TEST_F(WindowSequenceTest, ABlockGoesBackWhenNoLaterTokenSeesIt) {
  Sequence sequence(SequenceId{1}, numbered(40));
  for (int chunk = 0; chunk < 5; ++chunk) {
    plan_ = {};
    engine::SequencePlan* entry = sequence.feed(8, pools_, plan_).value();
    EXPECT_EQ(entry->blocks.size(), entry->window_blocks.size());
    EXPECT_EQ(plan_.zero_values.size(), 2u);
    EXPECT_EQ(plan_.window_zero_values.size(), 2u);
    for (int position = std::max(0, 8 * chunk - 5); position < 8 * chunk + 8; ++position) {
      EXPECT_NE(entry->window_blocks[static_cast<size_t>(position / kBlock)], kNoBlock);
    }
    sequence.fed(8, pools_, "");
    EXPECT_EQ(sequence.lease(0).held(), static_cast<size_t>(2 * (chunk + 1)));
    EXPECT_LE(sequence.lease(1).held(), 3u);
  }
  EXPECT_EQ(pools_.pool(0).counts().active, 10);
  EXPECT_EQ(pools_.pool(1).counts().active, 2);
  EXPECT_EQ(pools_.peek(numbered(40), 40), 40) << "what left the window is cache";
  sequence.append(7);
  plan_ = {};
  ASSERT_TRUE(sequence.feed(1, pools_, plan_).ok());
  sequence.fed(1, pools_, "");
  EXPECT_EQ(sequence.lease(1).held(), 2u) << "the query at 41 sees 36..41";
}

TEST_F(WindowSequenceTest, ReservesOnlyFullBlocksAheadAndCutsChunksToTheWindowsRoom) {
  Sequence sequence(SequenceId{1}, numbered(40));
  ASSERT_TRUE(sequence.reserve(40, pools_).ok());
  EXPECT_EQ(sequence.lease(0).held(), 10u);
  EXPECT_EQ(sequence.lease(1).held(), 0u);
  EXPECT_EQ(sequence.at_most(40, 6, pools_), 24);
  EXPECT_EQ(sequence.at_most(20, 6, pools_), 20);
  EXPECT_EQ(sequence.feed(40, pools_, plan_).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(sequence.lease(1).held(), 0u) << "nothing has changed";
  EXPECT_TRUE(plan_.zero_values.empty());
  ASSERT_TRUE(sequence.feed(24, pools_, plan_).ok());
  sequence.fed(24, pools_, "");
  EXPECT_EQ(sequence.lease(1).held(), 2u);
  EXPECT_EQ(sequence.at_most(16, 6, pools_), 16);
  EXPECT_EQ(sequence.at_most(16, 4, pools_), 8);
}

TEST_F(WindowSequenceTest, AForkCopiesThePartialBlockOfBothGroups) {
  Sequence base(SequenceId{1}, numbered(18));
  ASSERT_TRUE(base.feed(18, pools_, plan_).ok());
  base.fed(18, pools_, "");
  plan_ = {};
  Result<Sequence> sibling = base.fork(SequenceId{2}, pools_, plan_);
  ASSERT_TRUE(sibling.ok());
  ASSERT_EQ(plan_.copies.size(), 2u);
  for (int g = 0; g < 2; ++g) {
    EXPECT_EQ(plan_.copies[static_cast<size_t>(g)].group, g);
    EXPECT_EQ(plan_.copies[static_cast<size_t>(g)].from, base.blocks(g)[4]);
    EXPECT_EQ(plan_.copies[static_cast<size_t>(g)].to, sibling->blocks(g)[4]);
  }
  EXPECT_EQ(sibling->blocks(1)[3], base.blocks(1)[3]);
  EXPECT_EQ(sibling->blocks(1)[2], kNoBlock) << "the query at 18 sees 13..18";
  // A block that the base leaves stays the sibling's.
  base.append(1);
  base.append(2);
  engine::BatchPlan next;
  ASSERT_TRUE(base.feed(2, pools_, next).ok());
  base.fed(2, pools_, "");
  base.append(3);
  ASSERT_TRUE(base.feed(1, pools_, next).ok());
  base.fed(1, pools_, "");
  EXPECT_EQ(base.blocks(1)[3], kNoBlock);
  EXPECT_TRUE(pools_.pool(1).shared(sibling->blocks(1)[3])) << "published, and not free";
  base.drop_kv();
  EXPECT_EQ(pools_.pool(1).counts().active, 2);
}

// Random feeds, forks, drops and prefix hits against a model of what each block holds: whatever a
// step reads must have been written for these very tokens, and a block that is written belongs to
// one sequence.
class World {
 public:
  World(uint64_t seed, const kv_cache::BlockPools::Options& options)
      : random_(seed), pools_(options) {}

  void step() {
    const int choice = roll(10);
    if (choice < 2 || sequences_.empty()) {
      start();
    } else if (choice < 7) {
      feed(pick());
    } else if (choice == 7) {
      fork(pick());
    } else if (choice == 8) {
      pick().drop_kv();
    } else {
      sequences_.erase(sequences_.begin() + roll(static_cast<int>(sequences_.size())));
    }
    check();
  }
  void finish() {
    sequences_.clear();
    EXPECT_EQ(pools_.available(), pools_.total());
  }
  int forks = 0, hits = 0, exhausted = 0;

 private:
  int roll(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  Sequence& pick() {
    return sequences_[static_cast<size_t>(roll(static_cast<int>(sequences_.size())))];
  }
  void start() {
    std::vector<TokenId> tokens = numbered(1 + roll(14), roll(3) * 100);
    Sequence sequence(SequenceId{++last_id_}, tokens);
    kv_cache::BlockPools::Hit hit = pools_.match(tokens, static_cast<int>(tokens.size()) - 1);
    hits += hit.tokens > 0 ? 1 : 0;
    sequence.adopt(std::move(hit.blocks), hit.tokens);
    sequences_.push_back(std::move(sequence));
  }
  void feed(Sequence& sequence) {
    if (sequence.pending() == 0) {
      sequence.append(roll(1000));
    }
    const int count = 1 + roll(sequence.pending());
    engine::BatchPlan plan;
    Result<engine::SequencePlan*> entry = sequence.feed(count, pools_, plan);
    if (!entry.ok()) {
      ++exhausted;
      return;
    }
    for (int g = 0; g < pools_.groups(); ++g) {
      for (const BlockId id : g == 0 ? plan.zero_values : plan.window_zero_values) {
        contents_[{g, id}].assign(kBlock, -1);
      }
      const std::vector<BlockId>& table = g == 0 ? (*entry)->blocks : (*entry)->window_blocks;
      for (int i = 0; i < count; ++i) {
        const int position = (*entry)->first_position + i;
        const BlockId id = table[static_cast<size_t>(position / kBlock)];
        EXPECT_FALSE(pools_.pool(g).shared(id)) << "writes into a block of others";
        contents_[{g, id}].resize(kBlock, -1);
        contents_[{g, id}][static_cast<size_t>(position % kBlock)] =
            (*entry)->tokens[static_cast<size_t>(i)];
      }
    }
    sequence.fed(count, pools_, "");
  }
  void fork(Sequence& base) {
    if (base.computed() == 0) {
      return;
    }
    engine::BatchPlan plan;
    Result<Sequence> sibling = base.fork(SequenceId{++last_id_}, pools_, plan);
    if (!sibling.ok()) {
      ++exhausted;
      return;
    }
    ++forks;
    for (const engine::BlockCopy& copy : plan.copies) {
      contents_[{copy.group, copy.to}] = contents_[{copy.group, copy.from}];
    }
    sequences_.push_back(std::move(sibling).value());
  }
  void check() {
    for (const Sequence& sequence : sequences_) {
      for (int g = 0; g < pools_.groups(); ++g) {
        for (int i = pools_.group(g).first_visible(sequence.computed()); i < sequence.computed();
             ++i) {
          const BlockId id = sequence.blocks(g)[static_cast<size_t>(i / kBlock)];
          const std::vector<TokenId>& content = contents_[{g, id}];
          ASSERT_EQ(content.size(), static_cast<size_t>(kBlock));
          ASSERT_EQ(content[static_cast<size_t>(i % kBlock)],
                    sequence.tokens()[static_cast<size_t>(i)]);
        }
      }
    }
  }

  std::mt19937_64 random_;
  kv_cache::BlockPools pools_;
  std::map<std::pair<int, BlockId>, std::vector<TokenId>> contents_;
  std::vector<Sequence> sequences_;
  uint64_t last_id_ = 0;
};

void read_only_what_was_written(const kv_cache::BlockPools::Options& options) {
  int forks = 0, hits = 0, exhausted = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed, options);
    for (int i = 0; i < 500 && !testing::Test::HasFatalFailure(); ++i) {
      world.step();
    }
    world.finish();
    forks += world.forks;
    hits += world.hits;
    exhausted += world.exhausted;
  }
  EXPECT_GT(forks, 100);
  EXPECT_GT(hits, 100);
  EXPECT_GT(exhausted, 100);
}

TEST(SequenceModelTest, ReadsOnlyWhatWasWrittenForItsTokens) {
  read_only_what_was_written(one_group(24));
}

TEST(SequenceModelTest, ReadsOnlyWhatWasWrittenInBothGroups) {
  read_only_what_was_written(two_groups(24, 14));
  kv_cache::BlockPools::Options alone = two_groups(1, 14);
  alone.groups.erase(alone.groups.begin());
  alone.blocks = {14};
  read_only_what_was_written(alone);
}

}  // namespace
}  // namespace baton::worker
