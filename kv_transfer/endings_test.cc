// Ends that come late, early, twice or never: sends and posted receives that the test holds back,
// messages after the end of what they belong to.

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "kv_transfer/core_fixture.h"

namespace baton::kv_transfer {
namespace {

// A data path that tells of ends only when it is let: the memory of a send or of a placement counts
// as in use until then, as that of a request which UCX has not ended.
class HeldPath final : public DataPath {
 public:
  explicit HeldPath(std::unique_ptr<DataPath> path) : path_(std::move(path)) {}

  std::string_view transport() const override { return path_->transport(); }
  const std::string& address() const override { return path_->address(); }
  Result<PathPeer> connect(const std::string& address) override { return path_->connect(address); }
  Status check_lane(PathPeer peer) const override { return path_->check_lane(peer); }
  bool puts() const override { return path_->puts(); }
  std::span<const kv_cache::KvPool> pools_of(PathPeer peer) const override {
    return path_->pools_of(peer);
  }
  void send(PathPeer peer, std::span<const std::byte> header, std::span<const IoSlice> slices,
            std::span<const IoSlice> targets, uint64_t cookie) override {
    ++sends;
    path_->send(peer, header, slices, targets, cookie);
  }
  // By force, as the contract says: what is held ends with it.
  void close(PathPeer peer) override {
    hold_sent = hold_placed = false;
    path_->close(peer);
  }
  int progress(DataPathEvents& events) override {
    Filter filter(*this, events);
    int done = path_->progress(filter);
    if (!hold_placed) {
      done += tell(placed_, [&](auto& e) { events.placed(e.first, e.second); });
    }
    if (!hold_sent) {
      done += tell(sent_, [&](auto& e) { events.sent(e.first, e.second); });
    }
    return done + tell(closed_, [&](PathPeer peer) { events.peer_closed(peer); });
  }
  bool outstanding() const override { return path_->outstanding(); }
  int poll_fd() const override { return path_->poll_fd(); }
  bool arm() override { return path_->arm(); }

  bool hold_sent = false, hold_placed = false;
  Status next_sent;  // instead of success, for one send
  int sends = 0;

 private:
  using Ended = std::pair<uint64_t, Status>;

  class Filter final : public DataPathEvents {
   public:
    Filter(HeldPath& path, DataPathEvents& events) : path_(path), events_(events) {}
    Result<Placement> announced(std::span<const std::byte> header, size_t bytes) override {
      return events_.announced(header, bytes);
    }
    void malformed() override { events_.malformed(); }
    void placed(uint64_t id, const Status& status) override {
      path_.placed_.emplace_back(id, status);
    }
    void sent(uint64_t cookie, const Status& status) override {
      if (status.ok() && !path_.next_sent.ok()) {
        events_.sent(cookie, std::exchange(path_.next_sent, Status()));
        return;
      }
      path_.sent_.emplace_back(cookie, status);
    }
    void peer_failed(PathPeer peer, const Status& status) override {
      events_.peer_failed(peer, status);
    }
    void peer_closed(PathPeer peer) override { path_.closed_.push_back(peer); }

   private:
    HeldPath& path_;
    DataPathEvents& events_;
  };
  template <typename T, typename Tell>
  static int tell(std::vector<T>& held, const Tell& one) {
    std::vector<T> now = std::exchange(held, {});
    std::for_each(now.begin(), now.end(), one);
    return static_cast<int>(now.size());
  }

  std::unique_ptr<DataPath> path_;
  std::vector<Ended> placed_, sent_;
  std::vector<PathPeer> closed_;
};

class EndingsTest : public CoreTest {
 protected:
  EndingsTest() {
    auto p = std::make_unique<HeldPath>(std::move(path_p_));
    auto d = std::make_unique<HeldPath>(std::move(path_d_));
    at_sender_ = p.get();
    at_receiver_ = d.get();
    path_p_ = std::move(p);
    path_d_ = std::move(d);
    drop_ = [this](const wire::Message& message) {
      commits_ += std::holds_alternative<wire::Commit>(message) ? 1 : 0;
      if (const auto* ack = std::get_if<wire::CommitAck>(&message)) {
        acks_.push_back(*ack);
      }
      if (const auto* grant = std::get_if<wire::Grant>(&message)) {
        grant_ = *grant;
      }
      return lost_ && lost_(message);
    };
    start();
  }
  // A transfer whose DATA is all posted.
  TransferId pushed(uint64_t* reservation = nullptr) {
    TransferId id = 0;
    const uint64_t made = granted(64, &id);
    if (reservation != nullptr) {
      *reservation = made;
    }
    write_all(id, 64);
    settle();
    return id;
  }

  HeldPath* at_sender_ = nullptr;
  HeldPath* at_receiver_ = nullptr;
  std::function<bool(const wire::Message&)> lost_;
  int commits_ = 0;
  std::vector<wire::CommitAck> acks_;
  wire::Grant grant_;
};

// ---------------------------------------------------------------- the sender's memory

TEST_F(EndingsTest, NoCommitLeavesBeforeTheLastSendHasEnded) {
  at_sender_->hold_sent = true;
  const TransferId id = pushed();
  core_p_->commit(id, {{}}, {});
  settle();
  ASSERT_GT(at_sender_->sends, 0);
  EXPECT_EQ(commits_, 0);
  at_sender_->hold_sent = false;
  settle();
  EXPECT_EQ(commits_, 1);
  EXPECT_TRUE(happened<TransferCommitted>(at_d_));
  EXPECT_TRUE(happened<TransferAcked>(at_p_));
}

TEST_F(EndingsTest, AFailedSendWaitsForItsSiblingsBeforeTheBlocksGo) {
  at_sender_->hold_sent = true;
  at_sender_->next_sent = internal_error("the link hiccuped");
  pushed();
  ASSERT_GT(at_sender_->sends, 1);
  pass(1s);
  EXPECT_FALSE(happened<TransferFailed>(at_p_)) << "others still read the blocks";
  EXPECT_TRUE(happened<TicketReleased>(at_d_)) << "the receiver needs not wait for them";
  at_sender_->hold_sent = false;
  settle();
  const auto failed = at_p_.take<TransferFailed>({}, 0s);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status.code(), StatusCode::kUnavailable) << "another try may do";
  EXPECT_TRUE(failed->data_lost);
  EXPECT_EQ(at_p_.count<TransferFailed>(), 0u) << "once";
}

TEST_F(EndingsTest, ATransferThatMakesNoProgressEndsByItsOwnDeadline) {
  at_sender_->hold_sent = true;
  pushed();
  pass(1500ms);
  EXPECT_FALSE(happened<TransferFailed>(at_p_));
  // The peer is alive and answers ABORT; the requests end when the endpoint is closed by force.
  pass(4s);
  const auto failed = at_p_.take<TransferFailed>({}, 0s);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(happened<TicketReleased>(at_d_));
  EXPECT_EQ(core_p_->transfers(), 0u);
}

TEST_F(EndingsTest, ADeadlineIsAChangeOfStateAndFreesNothingByItself) {
  at_sender_->hold_sent = true;
  const TransferId id = open(64, clock_.now() + 1s);
  const auto reserve = at_d_.take<ReserveArrived>({}, 0s);
  ASSERT_TRUE(reserve);
  core_d_->grant(reserve->reservation, table_d(64), 0);
  settle();
  write_all(id, 64);
  pass(1200ms);
  EXPECT_TRUE(happened<TicketAborted>(at_d_)) << "the deadline has passed";
  EXPECT_FALSE(happened<TransferFailed>(at_p_)) << "the blocks are still read";
  at_sender_->hold_sent = false;
  pass(100ms);
  const auto failed = at_p_.take<TransferFailed>({}, 0s);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status.code(), StatusCode::kDeadlineExceeded);
}

TEST_F(EndingsTest, AnAbortEndsWithTheLaterOfAnswerAndSends) {
  for (const bool sends_first : {true, false}) {
    SCOPED_TRACE(sends_first);
    at_sender_->hold_sent = true;
    lost_ = [](const wire::Message& m) { return std::holds_alternative<wire::AbortAck>(m); };
    const TransferId id = pushed();
    core_p_->abort(id, "client");
    settle();
    const auto answer = [&] {
      core_p_->on_message(1,
                          wire::Message(wire::AbortAck{id, grant_.slot, grant_.generation, true}));
    };
    const auto end_sends = [&] { at_sender_->hold_sent = false; };
    sends_first ? end_sends() : answer();
    settle();
    EXPECT_FALSE(happened<TransferFailed>(at_p_)) << "half an end is none";
    sends_first ? answer() : end_sends();
    settle();
    EXPECT_TRUE(happened<TransferFailed>(at_p_));
    answer();
    settle();
    EXPECT_FALSE(happened<TransferFailed>(at_p_)) << "once";
    pass(100ms);
  }
}

// ---------------------------------------------------------------- the receiver's memory

TEST_F(EndingsTest, BlocksStayInQuarantineUntilEveryPostedReceiveHasEnded) {
  const std::vector<std::function<void(TransferId, uint64_t)>> ends = {
      [&](TransferId id, uint64_t) { core_p_->abort(id, "client"); },
      [&](TransferId, uint64_t reservation) { core_d_->abort_reservation(reservation, "client"); },
      [&](TransferId, uint64_t) { pass(70s, 150ms); },  // the lease
  };
  for (size_t i = 0; i < ends.size(); ++i) {
    SCOPED_TRACE(i);
    at_receiver_->hold_placed = true;
    uint64_t reservation = 0;
    const TransferId id = pushed(&reservation);
    ends[i](id, reservation);
    settle();
    EXPECT_TRUE(happened<TicketAborted>(at_d_));
    pass(2s);
    EXPECT_FALSE(happened<TicketReleased>(at_d_)) << "a receive may still write";
    at_receiver_->hold_placed = false;
    settle();
    EXPECT_TRUE(happened<TicketReleased>(at_d_));
    EXPECT_EQ(core_d_->tickets(), 0u);
    pass(200ms);
  }
}

TEST_F(EndingsTest, ACommitWaitsForReceivesThatAreUnderWay) {
  at_receiver_->hold_placed = true;
  const TransferId id = pushed();
  core_p_->commit(id, {{}}, {});
  settle();
  EXPECT_EQ(commits_, 1);
  EXPECT_FALSE(happened<TransferCommitted>(at_d_)) << "bytes are not there yet";
  at_receiver_->hold_placed = false;
  settle();
  EXPECT_TRUE(happened<TransferCommitted>(at_d_));
  EXPECT_EQ(pools_d_->mismatches(table_d(64), 1, 0, 64), 0u);
}

TEST_F(EndingsTest, ACommitOfMoreThanArrivedIsRefused) {
  TransferId id = 0;
  granted(64, &id);
  wire::Commit commit;
  commit.key = test_body(64, 1).key;
  commit.slot = grant_.slot;
  commit.generation = grant_.generation;
  core_d_->on_message(1, wire::Message(commit));
  settle();
  ASSERT_EQ(acks_.size(), 1u);
  EXPECT_FALSE(acks_[0].ok);
  EXPECT_FALSE(happened<TransferCommitted>(at_d_));
  EXPECT_TRUE(happened<TicketReleased>(at_d_));
  write_all(id, 64);
  settle();
  EXPECT_TRUE(happened<TransferFailed>(at_p_)) << "its DATA finds no ticket";
}

TEST_F(EndingsTest, ACommitAfterTheLeaseIsRefusedOnBothSides) {
  const TransferId id = pushed();
  // P computes for longer than the lease, and D's ABORT is lost.
  lost_ = [](const wire::Message& m) { return std::holds_alternative<wire::Abort>(m); };
  pass(70s, 150ms);
  EXPECT_TRUE(happened<TicketAborted>(at_d_));
  EXPECT_TRUE(happened<TicketReleased>(at_d_));
  core_p_->commit(id, {{}}, {});
  settle();
  EXPECT_FALSE(happened<TransferCommitted>(at_d_));
  ASSERT_EQ(acks_.size(), 1u);
  EXPECT_FALSE(acks_[0].ok);
  EXPECT_TRUE(happened<TransferFailed>(at_p_));
  EXPECT_FALSE(happened<TransferAcked>(at_p_));
}

TEST_F(EndingsTest, WhatComesAfterTheEndIsCountedAndChangesNothing) {
  at_receiver_->hold_placed = true;
  uint64_t reservation = 0;
  const TransferId id = pushed(&reservation);
  core_d_->abort_reservation(reservation, "client");
  settle();
  ASSERT_TRUE(happened<TransferFailed>(at_p_));
  pass(100ms);
  at_receiver_->hold_placed = false;  // the receives of a request that is gone end now
  settle();
  ASSERT_TRUE(happened<TicketAborted>(at_d_));
  ASSERT_TRUE(happened<TicketReleased>(at_d_));
  const double before = dropped(DropReason::kUnknownTicket);
  core_p_->on_message(1, wire::Message(wire::CommitAck{grant_.slot, grant_.generation, true, ""}));
  core_p_->on_message(1, wire::Message(wire::AbortAck{id, grant_.slot, grant_.generation, true}));
  core_p_->on_message(1, wire::Message(wire::Deny{id, StatusCode::kUnavailable, "late", 0}));
  wire::Commit commit;
  commit.slot = grant_.slot;
  commit.generation = grant_.generation;
  core_d_->on_message(1, wire::Message(commit));
  core_p_->abort(id, "again");
  core_d_->abort_reservation(reservation, "again");
  core_p_->commit(id, {{}}, {});
  core_p_->layer_written(id, 0, 0, 64);
  settle();
  // Five: D's refusal of the COMMIT belongs to nothing either.
  EXPECT_EQ(dropped(DropReason::kUnknownTicket) - before, 5);
  EXPECT_EQ(at_p_.count<TransferFailed>() + at_p_.count<TransferAcked>(), 0u);
  EXPECT_EQ(at_d_.count<TicketAborted>() + at_d_.count<TicketReleased>(), 0u);
}

// ---------------------------------------------------------------- links

TEST_F(EndingsTest, ManyTransfersToANewPeerMakeOneConnection) {
  lost_ = [](const wire::Message& m) { return std::holds_alternative<wire::HelloReply>(m); };
  for (int i = 0; i < 32; ++i) {
    open(64);
  }
  EXPECT_EQ(net_.p.connects, 1);
  EXPECT_EQ(at_d_.count<ReserveArrived>(), 0u);
}

TEST_F(EndingsTest, ATicketOfAnotherSessionIsOutOfReach) {
  const TransferId id = pushed();
  // A second prefill worker that counts its transfers from 1, too, and has the first one's ticket.
  auto second_path = InprocPath::create(hub_).value();
  AgentOptions options = test_options(*pools_p_, wire::Role::kPrefill, "p1", 44);
  net_.p.sent.clear();
  Network other;
  EventLog log;
  auto second = std::make_unique<TransferCore>(options, std::vector<DataPath*>{second_path.get()},
                                               other.p, clock_, random_, metrics_p_, log.sink());
  OpenTransfer request;
  request.target = {"d0", Incarnation{22}, "net"};
  request.body = test_body(64, 1);
  request.kv_tokens = 64;
  request.blocks = {0, 1};
  request.deadline = TimePoint::max();
  second->open(id, std::move(request));
  ASSERT_EQ(other.p.sent.size(), 1u);
  core_d_->on_message(2, std::move(other.p.sent.front().second));
  ASSERT_FALSE(net_.d.sent.empty());
  second->on_message(1, std::move(net_.d.sent.back().second));
  net_.d.sent.clear();

  wire::Commit commit;
  commit.key = test_body(64, id).key;
  commit.slot = grant_.slot;
  commit.generation = grant_.generation;
  core_d_->on_message(2, wire::Message(commit));
  EXPECT_EQ(dropped(DropReason::kForeignSession), 1);
  core_d_->on_message(2,
                      wire::Message(wire::Abort{{}, id, grant_.slot, grant_.generation, "mine"}));
  EXPECT_FALSE(happened<TicketAborted>(at_d_));
  core_p_->commit(id, {{}}, {});
  settle();
  EXPECT_TRUE(happened<TransferCommitted>(at_d_)) << "the first one's ticket is as it was";
  EXPECT_TRUE(happened<TransferAcked>(at_p_));
  second->shut_down(cancelled("bye"));
}

}  // namespace
}  // namespace baton::kv_transfer
