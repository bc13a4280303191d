// The tables of both sides: every non-final state can be left, final ones cannot, and whatever
// happens to a peer or a user is possible wherever it can happen.

#include <gtest/gtest.h>

#include <set>

#include "kv_transfer/quarantine.h"
#include "kv_transfer/receiver_states.h"
#include "kv_transfer/sender_states.h"

namespace baton::kv_transfer {
namespace {

TEST(StatesTest, ASenderEndsFromEveryState) {
  std::set<SenderState> ends = {SenderState::kDone, SenderState::kAborted, SenderState::kFailed};
  for (size_t grown = 0; grown != ends.size();) {
    grown = ends.size();
    for (const SenderTransition& t : kSenderTransitions) {
      if (ends.contains(t.to)) {
        ends.insert(t.from);
      }
    }
  }
  EXPECT_EQ(ends.size(), 11u);
  for (const SenderTransition& t : kSenderTransitions) {
    EXPECT_FALSE(is_final(t.from)) << to_string(t.from);
  }
}

TEST(StatesTest, APeersLossIsPossibleInEveryOpenSenderState) {
  for (const SenderTransition& t : kSenderTransitions) {
    if (t.from != SenderState::kLosing) {
      EXPECT_EQ(next_state(t.from, SenderEvent::kPeerLost), SenderState::kLosing)
          << to_string(t.from);
    }
  }
}

TEST(StatesTest, OnlyACommitMakesATicketRunnable) {
  for (const ReceiverTransition& t : kReceiverTransitions) {
    if (t.to == ReceiverState::kCommitted) {
      EXPECT_EQ(t.event, ReceiverEvent::kCommitValid);
    }
    if (t.to == ReceiverState::kFree) {
      EXPECT_NE(t.from, ReceiverState::kReserved) << "blocks go through quarantine or a commit";
      EXPECT_NE(t.from, ReceiverState::kReceiving);
    }
  }
}

TEST(StatesTest, NoPairOfStateAndEventHasTwoRows) {
  std::set<std::pair<int, int>> seen;
  for (const SenderTransition& t : kSenderTransitions) {
    EXPECT_TRUE(seen.insert({static_cast<int>(t.from), static_cast<int>(t.event)}).second)
        << to_string(t.from) << " " << to_string(t.event);
  }
  seen.clear();
  for (const ReceiverTransition& t : kReceiverTransitions) {
    EXPECT_TRUE(seen.insert({static_cast<int>(t.from), static_cast<int>(t.event)}).second)
        << to_string(t.from) << " " << to_string(t.event);
  }
}

TEST(StatesTest, WhatMeansNothingLeadsNowhere) {
  EXPECT_EQ(next_state(SenderState::kDone, SenderEvent::kCancel), std::nullopt);
  EXPECT_EQ(next_state(SenderState::kIdle, SenderEvent::kGrant), std::nullopt);
  EXPECT_EQ(next_state(ReceiverState::kQuarantined, ReceiverEvent::kData), std::nullopt);
  EXPECT_EQ(next_state(ReceiverState::kAsked, ReceiverEvent::kCommitValid), std::nullopt);
}

TEST(QuarantineTest, RaisesItsAlarmOnce) {
  Quarantine quarantine(10s);
  const TimePoint begin{};
  quarantine.enter(1, begin);
  quarantine.enter(2, begin + 5s);
  EXPECT_TRUE(quarantine.overdue(begin + 9s).empty());
  EXPECT_EQ(quarantine.overdue(begin + 11s), std::vector<uint64_t>{1});
  EXPECT_TRUE(quarantine.overdue(begin + 12s).empty());
  EXPECT_EQ(quarantine.overdue(begin + 16s), std::vector<uint64_t>{2});
  quarantine.leave(1);
  EXPECT_EQ(quarantine.size(), 1u);
}

}  // namespace
}  // namespace baton::kv_transfer
