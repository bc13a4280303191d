// A model-based test of both tables with the dice of a seed.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "kv_transfer/core_fixture.h"

namespace baton::kv_transfer {
namespace {

// Many transfers with random sizes, grants, denials, aborts of both sides and lost messages. Each
// transfer ends once; each granted ticket ends once, by commit or by release; what is committed is
// right; in the end nothing is left.
class RandomRoundsTest : public CoreTest, public testing::WithParamInterface<uint64_t> {};

TEST_P(RandomRoundsTest, EveryTransferAndEveryTicketEndsExactlyOnce) {
  TestShape shape;
  shape.layers = 2;
  shape.blocks = 40;
  const bool windows = GetParam() % 2 == 0;
  if (windows) {
    shape.layers = 3;
    shape.layer_groups = {1, 0, 1};
    shape.window = 40;
    shape.window_blocks = 30;
  }
  TestShape shape_d = shape;
  SeededRandom dice(GetParam());
  auto pick = [&](uint64_t n) { return dice.next() % n; };
  shape_d.block_tokens = pick(2) == 0 || windows ? 32 : 64;
  shape.ranks = head_ranges(9, 3, 4, 1 << pick(3));
  shape_d.ranks = head_ranges(9, 3, 4, 1 << pick(3));
  puts_ = pick(2) == 0;
  start(shape, shape_d);
  drop_ = [&](const wire::Message& m) {
    const bool hello =
        std::holds_alternative<wire::Hello>(m) || std::holds_alternative<wire::HelloReply>(m);
    return !hello && pick(20) == 0;
  };
  // All transfers read the same blocks, written once.
  fill_on_open_ = false;
  pools_p_->write({0, 1, 2, 3, 4}, 1, 0, 160);
  if (windows) {
    pools_p_->write({0, 1, 2, 3, 4}, 1, 0, 160, 1);
  }
  struct Known {
    TransferId id = 0;
    int tokens = 0;
  };
  std::vector<Known> transfers;
  std::map<uint64_t, int> granted_tokens;  // reservation -> tokens
  std::map<uint64_t, std::vector<BlockId>> tables;
  std::map<uint64_t, std::vector<BlockId>> window_tables;
  std::set<BlockId> used, window_used;
  std::map<uint64_t, int> ended;
  std::map<TransferId, int> finals;

  auto give_back = [&](uint64_t reservation) {
    for (const BlockId id : tables[reservation]) {
      used.erase(id);
    }
    for (const BlockId id : window_tables[reservation]) {
      window_used.erase(id);
    }
  };
  // Places from `first` to the end of `tokens`, in blocks that nobody uses; what lies before is
  // empty.
  auto free_table = [&](int total, const std::set<BlockId>& taken, int first, int tokens) {
    std::vector<BlockId> table(static_cast<size_t>(first), kNoBlock);
    for (BlockId id = 0; id < static_cast<BlockId>(total) &&
                         static_cast<int>(table.size()) < pools_d_->blocks_for(tokens);
         ++id) {
      if (!taken.contains(id)) {
        table.push_back(id);
      }
    }
    return table;
  };
  auto collect = [&] {
    while (auto e = at_d_.take<TransferCommitted>({}, 0s)) {
      ++ended[e->reservation];
      EXPECT_EQ(pools_d_->mismatches(tables[e->reservation], 1, 0, granted_tokens[e->reservation]),
                0u);
      if (const int tokens = granted_tokens[e->reservation]; windows) {
        EXPECT_EQ(
            pools_d_->mismatches(window_tables[e->reservation], 1, first_seen(tokens), tokens, 1),
            0u);
      }
      give_back(e->reservation);
    }
    while (auto e = at_d_.take<TicketReleased>({}, 0s)) {
      ++ended[e->reservation];
      give_back(e->reservation);
    }
    while (auto e = at_p_.take<TransferAcked>({}, 0s)) {
      ++finals[e->id];
    }
    while (auto e = at_p_.take<TransferFailed>({}, 0s)) {
      ++finals[e->id];
    }
  };
  auto answer = [&] {
    while (auto reserve = at_d_.take<ReserveArrived>({}, 0s)) {
      if (pick(6) == 0) {
        core_d_->deny(reserve->reservation, resource_exhausted("dice"), 5);
        continue;
      }
      const int tokens = reserve->kv_tokens;
      const int first = windows ? first_seen(tokens) : 0;
      std::vector<BlockId> table = free_table(shape_d.blocks, used, 0, tokens);
      std::vector<BlockId> window_table =
          windows ? free_table(shape_d.window_blocks, window_used, first / 32, tokens) : table;
      if (static_cast<int>(std::min(table.size(), window_table.size())) <
          pools_d_->blocks_for(tokens)) {
        core_d_->deny(reserve->reservation, resource_exhausted("full"), 5);
        continue;
      }
      granted_tokens[reserve->reservation] = tokens;
      tables[reserve->reservation] = table;
      used.insert(table.begin(), table.end());
      pools_d_->zero_values(table);
      WindowGrant window;
      if (windows) {
        pools_d_->zero_values(window_table, 1);
        window = {window_table, first};
        window_tables[reserve->reservation] = window_table;
        window_used.insert(window_table.begin() + first / 32, window_table.end());
      }
      core_d_->grant(reserve->reservation, std::move(table), 0, std::move(window));
    }
  };

  for (int round = 0; round < 200; ++round) {
    switch (pick(7)) {
      case 0:
      case 1: {
        const int tokens = 1 + static_cast<int>(pick(150));
        transfers.push_back({open(tokens), tokens});
        break;
      }
      case 2:
      case 3:
        if (!transfers.empty()) {
          const Known& known = transfers[pick(transfers.size())];
          write_all(known.id, static_cast<int>(pick(static_cast<uint64_t>(known.tokens) + 1)));
        }
        break;
      case 4:
        if (!transfers.empty()) {
          core_p_->commit(transfers[pick(transfers.size())].id, {{}}, {});
        }
        break;
      case 5:
        if (!transfers.empty() && pick(3) == 0) {
          core_p_->abort(transfers[pick(transfers.size())].id, "dice");
        }
        break;
      case 6:
        if (!granted_tokens.empty() && pick(3) == 0) {
          auto it = granted_tokens.begin();
          std::advance(it, pick(granted_tokens.size()));
          core_d_->abort_reservation(it->first, "dice");
        }
        break;
    }
    settle();
    answer();
    if (pick(3) == 0) {
      pass(100ms * (1 + pick(3)));
    }
    collect();
  }
  drop_ = nullptr;
  for (const Known& known : transfers) {
    core_p_->commit(known.id, {{}}, {});
  }
  for (int i = 0; i < 100; ++i) {
    settle();
    answer();
    pass(200ms);
    collect();
  }
  pass(70s, 150ms);
  collect();
  for (const Known& known : transfers) {
    EXPECT_EQ(finals[known.id], 1) << "transfer " << known.id;
  }
  for (const auto& [reservation, tokens] : granted_tokens) {
    EXPECT_EQ(ended[reservation], 1) << "reservation " << reservation;
  }
  EXPECT_TRUE(used.empty());
  EXPECT_TRUE(window_used.empty());
  EXPECT_EQ(core_p_->transfers(), 0u);
  EXPECT_EQ(core_d_->tickets(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRoundsTest, testing::Range<uint64_t>(1, 41));
}  // namespace
}  // namespace baton::kv_transfer
