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

class SequenceTest : public testing::Test {
 protected:
  kv_cache::BlockPool pool_{
      {.blocks = 8, .block_tokens = kBlock, .prefix_cache = true, .root = {}}};
  engine::BatchPlan plan_;
};

TEST_F(SequenceTest, FeedsChunksAndSamplesOnlyTheLast) {
  Sequence sequence(SequenceId{1}, numbered(10));
  engine::SequencePlan* first = sequence.feed(6, pool_, plan_).value();
  EXPECT_EQ(first->tokens, numbered(6));
  EXPECT_EQ(first->first_position, 0);
  EXPECT_EQ(first->blocks.size(), 2u);
  EXPECT_EQ(first->logits, engine::LogitsWanted::kNone);
  EXPECT_EQ(plan_.zero_values.size(), 2u);
  sequence.fed(6, pool_, "");
  EXPECT_EQ(sequence.computed(), 6);

  plan_ = {};
  engine::SequencePlan* last = sequence.feed(4, pool_, plan_).value();
  EXPECT_EQ(last->tokens, numbered(4, 6));
  EXPECT_EQ(last->first_position, 6);
  EXPECT_EQ(last->blocks.size(), 3u);
  EXPECT_EQ(last->logits, engine::LogitsWanted::kLast);
  EXPECT_EQ(plan_.zero_values, std::vector<BlockId>{last->blocks[2]}) << "only what is new";
  sequence.fed(4, pool_, "");
  EXPECT_EQ(sequence.pending(), 0);
  sequence.append(99);
  EXPECT_EQ(sequence.pending(), 1);
}

TEST_F(SequenceTest, ChangesNothingWhenBlocksRunOut) {
  Sequence hog(SequenceId{1}, numbered(7 * kBlock));
  ASSERT_TRUE(hog.reserve(7 * kBlock, pool_).ok());
  Sequence sequence(SequenceId{2}, numbered(5));
  EXPECT_EQ(sequence.blocks_missing(5, pool_), 2);
  EXPECT_EQ(sequence.feed(5, pool_, plan_).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(plan_.sequences.empty());
  EXPECT_TRUE(plan_.zero_values.empty());
  EXPECT_TRUE(sequence.blocks().empty());
  EXPECT_EQ(sequence.reserve(5, pool_).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(sequence.feed(4, pool_, plan_).ok()) << "one block is left";
}

TEST_F(SequenceTest, CleansReservedBlocksOnceAndAdoptedOnesNever) {
  Sequence sequence(SequenceId{1}, numbered(9));
  sequence.adopt(pool_.allocate(1).value(), 4);
  ASSERT_TRUE(sequence.reserve(9, pool_).ok());
  const std::vector<BlockId> table(sequence.blocks().begin(), sequence.blocks().end());
  ASSERT_TRUE(sequence.feed(1, pool_, plan_).ok());
  EXPECT_EQ(plan_.zero_values, (std::vector<BlockId>{table[1], table[2]}));
  sequence.fed(1, pool_, "");
  plan_ = {};
  ASSERT_TRUE(sequence.feed(4, pool_, plan_).ok());
  EXPECT_TRUE(plan_.zero_values.empty());
}

TEST_F(SequenceTest, PublishesFullBlocksForOthers) {
  Sequence sequence(SequenceId{1}, numbered(10));
  ASSERT_TRUE(sequence.feed(10, pool_, plan_).ok());
  EXPECT_EQ(pool_.peek(numbered(10), "s"), 0);
  sequence.fed(10, pool_, "s");
  EXPECT_EQ(pool_.peek(numbered(10), "s"), 8);
  EXPECT_EQ(pool_.peek(numbered(10), "other"), 0);
}

TEST_F(SequenceTest, DroppedKvIsComputedAgain) {
  Sequence sequence(SequenceId{1}, numbered(6));
  ASSERT_TRUE(sequence.feed(6, pool_, plan_).ok());
  sequence.fed(6, pool_, "");
  sequence.append(50);
  sequence.drop_kv();
  EXPECT_EQ(pool_.available(), 8);
  EXPECT_EQ(sequence.pending(), 7);
  plan_ = {};
  EXPECT_EQ(sequence.feed(7, pool_, plan_).value()->first_position, 0);
  EXPECT_EQ(plan_.zero_values.size(), 2u);
}

TEST_F(SequenceTest, AForkSharesFullBlocksAndCopiesThePartialOne) {
  Sequence base(SequenceId{1}, numbered(6));
  ASSERT_TRUE(base.feed(6, pool_, plan_).ok());
  base.fed(6, pool_, "");
  plan_ = {};
  Result<Sequence> sibling = base.fork(SequenceId{2}, pool_, plan_);
  ASSERT_TRUE(sibling.ok());
  EXPECT_EQ(sibling->computed(), 6);
  EXPECT_EQ(sibling->blocks()[0], base.blocks()[0]);
  EXPECT_NE(sibling->blocks()[1], base.blocks()[1]);
  ASSERT_EQ(plan_.copies.size(), 1u);
  EXPECT_EQ(plan_.copies[0].from, base.blocks()[1]);
  EXPECT_EQ(plan_.copies[0].to, sibling->blocks()[1]);
  sibling->append(7);
  engine::BatchPlan next;
  EXPECT_TRUE(sibling->feed(1, pool_, next).ok());
  EXPECT_TRUE(next.zero_values.empty()) << "the copy must not be wiped";
}

TEST_F(SequenceTest, AForkAtABlockBorderCopiesNothing) {
  Sequence base(SequenceId{1}, numbered(8));
  ASSERT_TRUE(base.feed(8, pool_, plan_).ok());
  base.fed(8, pool_, "");
  Sequence hog(SequenceId{3}, numbered(6 * kBlock));
  ASSERT_TRUE(hog.reserve(6 * kBlock, pool_).ok());
  Result<Sequence> sibling = base.fork(SequenceId{2}, pool_, plan_);
  ASSERT_TRUE(sibling.ok());
  EXPECT_TRUE(plan_.copies.empty());
  EXPECT_EQ(sibling->blocks().size(), 2u);
}

TEST_F(SequenceTest, AForkWithoutABlockForItsCopyFailsAndKeepsNothing) {
  Sequence base(SequenceId{1}, numbered(6));
  ASSERT_TRUE(base.feed(6, pool_, plan_).ok());
  base.fed(6, pool_, "");
  Sequence hog(SequenceId{3}, numbered(6 * kBlock));
  ASSERT_TRUE(hog.reserve(6 * kBlock, pool_).ok());
  EXPECT_EQ(base.fork(SequenceId{2}, pool_, plan_).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(plan_.copies.empty());
}

// Random feeds, forks, drops and prefix hits against a model of what each block holds: whatever a
// step reads must have been written for these very tokens, and a block that is written belongs to
// one sequence.
class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {}

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
    EXPECT_EQ(pool_.available(), pool_.total());
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
    kv_cache::BlockPool::Hit hit = pool_.match(tokens, static_cast<int>(tokens.size()) - 1);
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
    Result<engine::SequencePlan*> entry = sequence.feed(count, pool_, plan);
    if (!entry.ok()) {
      ++exhausted;
      return;
    }
    for (const BlockId id : plan.zero_values) {
      contents_[id].assign(kBlock, -1);
    }
    for (int i = 0; i < count; ++i) {
      const int position = (*entry)->first_position + i;
      const BlockId id = (*entry)->blocks[static_cast<size_t>(position / kBlock)];
      EXPECT_FALSE(pool_.shared(id)) << "writes into a block of others";
      contents_[id].resize(kBlock, -1);
      contents_[id][static_cast<size_t>(position % kBlock)] =
          (*entry)->tokens[static_cast<size_t>(i)];
    }
    sequence.fed(count, pool_, "");
  }
  void fork(Sequence& base) {
    if (base.computed() == 0) {
      return;
    }
    engine::BatchPlan plan;
    Result<Sequence> sibling = base.fork(SequenceId{++last_id_}, pool_, plan);
    if (!sibling.ok()) {
      ++exhausted;
      return;
    }
    ++forks;
    for (const engine::BlockCopy& copy : plan.copies) {
      contents_[copy.to] = contents_[copy.from];
    }
    sequences_.push_back(std::move(sibling).value());
  }
  void check() {
    for (const Sequence& sequence : sequences_) {
      for (int i = 0; i < sequence.computed(); ++i) {
        const BlockId id = sequence.blocks()[static_cast<size_t>(i / kBlock)];
        ASSERT_EQ(contents_[id][static_cast<size_t>(i % kBlock)],
                  sequence.tokens()[static_cast<size_t>(i)]);
      }
    }
  }

  std::mt19937_64 random_;
  kv_cache::BlockPool pool_{
      {.blocks = 24, .block_tokens = kBlock, .prefix_cache = true, .root = {}}};
  std::map<BlockId, std::vector<TokenId>> contents_;
  std::vector<Sequence> sequences_;
  uint64_t last_id_ = 0;
};

TEST(SequenceModelTest, ReadsOnlyWhatWasWrittenForItsTokens) {
  int forks = 0, hits = 0, exhausted = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
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

}  // namespace
}  // namespace baton::worker
