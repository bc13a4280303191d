// The hand-over where the sender writes into the receiver's pools: what the receiver may rely on,
// and when blocks of a ticket that ended badly may be used again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kv_transfer/core_fixture.h"

namespace baton::kv_transfer {
namespace {

using testing::HasSubstr;

class PutsTest : public CoreTest {
 protected:
  PutsTest() { puts_ = true; }

  void SetUp() override { start(); }
  // One side stands still: only D's time passes, and what P has sent arrives.
  void pass_at_d(Duration time) {
    for (Duration t{}; t < time; t += 100ms) {
      clock_.advance(100ms);
      core_d_->poll(false);
      core_d_->progress();
      deliver(net_.p, *core_d_);
    }
  }
  template <typename M>
  static bool is(const wire::Message& m) {
    return std::holds_alternative<M>(m);
  }
};

TEST_F(PutsTest, HandsOverWithoutTheReceiversPart) {
  TransferId id = 0;
  granted(100, &id);
  // D does nothing; the bytes are there.
  write_all(id, 100);
  for (int i = 0; i < 10; ++i) {
    core_p_->progress();
  }
  EXPECT_EQ(pools_d_->mismatches(table_d(100), 1, 0, 96), 0u);
  core_p_->commit(id, {{}}, {});
  settle();
  EXPECT_TRUE(happened<TransferAcked>(at_p_));
  const auto committed = at_d_.take<TransferCommitted>({}, 0s);
  ASSERT_TRUE(committed);
  EXPECT_EQ(committed->transport, "pool");
  EXPECT_EQ(pools_d_->mismatches(table_d(100), 1, 0, 100), 0u);
  EXPECT_EQ(pools_d_->nonzero_after(table_d(100), 100), 0u);
}

TEST_F(PutsTest, WhatIsNotAsItsDigestSaysIsNotCommitted) {
  TransferId id = 0;
  granted(64, &id);
  bool damaged = false;
  drop_ = [&](const wire::Message& m) {
    if (is<wire::Written>(m) && !damaged) {
      damaged = true;
      pools_d_->pool(0).block(0, table_d(64)[0])[5] ^= std::byte{1};
    }
    return false;
  };
  core_p_->commit(id, {{}}, {});
  settle();
  ASSERT_TRUE(damaged);
  EXPECT_EQ(dropped(DropReason::kDigest), 1);
  EXPECT_FALSE(happened<TransferCommitted>(at_d_));
  const auto failed = at_p_.take<TransferFailed>({}, 0s);
  ASSERT_TRUE(failed);
  EXPECT_THAT(failed->status.message(), HasSubstr("pieces are missing"));
  EXPECT_TRUE(failed->data_lost);
  EXPECT_TRUE(happened<TicketReleased>(at_d_)) << "COMMIT is after the last write";
}

TEST_F(PutsTest, WhatWasNotToldIsNotCommitted) {
  TransferId id = 0;
  granted(64, &id);
  int lost = 0;
  drop_ = [&](const wire::Message& m) { return is<wire::Written>(m) && lost++ == 0; };
  core_p_->commit(id, {{}}, {});
  settle();
  EXPECT_FALSE(happened<TransferCommitted>(at_d_));
  const auto failed = at_p_.take<TransferFailed>({}, 0s);
  ASSERT_TRUE(failed);
  EXPECT_TRUE(failed->data_lost);
  EXPECT_EQ(core_d_->tickets(), 0u);
}

TEST_F(PutsTest, WordsAboutOtherTicketsAreDropped) {
  TransferId id = 0;
  granted(64, &id);
  DataHeader header;
  header.slot = 1;
  header.generation = 99;
  const auto tell = [&](const DataHeader& h) {
    const DataHeaderBytes bytes = encode_header(h);
    core_d_->on_message(
        1,
        wire::Message(wire::Written{{reinterpret_cast<const char*>(bytes.data()), bytes.size()}}));
  };
  tell(header);
  EXPECT_EQ(dropped(DropReason::kUnknownTicket), 1);
  core_d_->on_message(1, wire::Message(wire::Written{"nonsense"}));
  EXPECT_EQ(dropped(DropReason::kBadHeader), 1);
  bool doubled = false;
  drop_ = [&](const wire::Message& m) {
    if (is<wire::Written>(m) && !doubled) {
      doubled = true;
      core_d_->on_message(1, wire::Message(m));
    }
    return false;
  };
  core_p_->commit(id, {{}}, {});
  settle();
  EXPECT_EQ(dropped(DropReason::kDuplicate), 1);
  EXPECT_TRUE(happened<TransferCommitted>(at_d_));
}

TEST_F(PutsTest, AGrantOfBlocksThatDoNotExistIsNotFollowed) {
  for (const BlockId bad : {BlockId{64}, kNoBlock}) {
    const TransferId id = open(64);
    core_p_->on_message(1, wire::Message(wire::Grant{id, 7, 7, 0, 1'000, 0, {30, bad}, {}}));
    write_all(id, 64);
    settle();
    const auto failed = at_p_.take<TransferFailed>({}, 0s);
    ASSERT_TRUE(failed);
    EXPECT_THAT(failed->status.message(), HasSubstr("blocks that it does not have"));
  }
  const TransferId id = open(64);
  core_p_->on_message(1, wire::Message(wire::Grant{id, 8, 8, 0, 1'000, 0, {30}, {}}));
  settle();
  EXPECT_TRUE(happened<TransferFailed>(at_p_)) << "one block for two";
}

TEST_F(PutsTest, BlocksOfAnAbortWaitForTheSendersWord) {
  TransferId id = 0;
  const uint64_t reservation = granted(64, &id);
  drop_ = [](const wire::Message& m) { return is<wire::AbortAck>(m); };
  core_d_->abort_reservation(reservation, "cancelled");
  settle();
  EXPECT_TRUE(happened<TicketAborted>(at_d_));
  EXPECT_FALSE(happened<TicketReleased>(at_d_)) << "the word was lost";
  EXPECT_EQ(core_d_->tickets(), 1u);
  drop_ = nullptr;
  pass(3s);  // asked again, of a transfer that has long ended
  EXPECT_TRUE(happened<TicketReleased>(at_d_));
  EXPECT_EQ(core_p_->transfers() + core_d_->tickets(), 0u);
}

TEST_F(PutsTest, TheSendersAbortIsItsWord) {
  TransferId id = 0;
  granted(64, &id);
  write_all(id, 40);
  core_p_->progress();  // written, not told
  core_p_->abort(id, "cancelled");
  settle();
  EXPECT_TRUE(happened<TransferFailed>(at_p_));
  EXPECT_TRUE(happened<TicketAborted>(at_d_));
  EXPECT_TRUE(happened<TicketReleased>(at_d_));
}

TEST_F(PutsTest, AnAbortThatCrossesTheGrantReleasesToo) {
  const TransferId id = open(64);
  const auto reserve = at_d_.take<ReserveArrived>({}, 0s);
  ASSERT_TRUE(reserve);
  core_d_->grant(reserve->reservation, table_d(64), 0);
  core_p_->abort(id, "cancelled");
  settle();
  EXPECT_TRUE(happened<TicketReleased>(at_d_));
  EXPECT_EQ(core_d_->tickets(), 0u);
}

// It is stopped in the middle of its writes, for as long as it likes.
TEST_F(PutsTest, AStoppedSenderKeepsBlocksOutOfUseUntilItHasWoken) {
  TransferId id = 0;
  granted(64, &id);
  write_all(id, 40);
  core_p_->progress();
  pass_at_d(2min);
  const auto aborted = at_d_.take<TicketAborted>({}, 0s);
  ASSERT_TRUE(aborted);
  EXPECT_EQ(aborted->status.code(), StatusCode::kWorkerLost);
  EXPECT_FALSE(happened<TicketReleased>(at_d_));
  // It wakes and goes on writing where it was let in: nobody else has these blocks.
  write_all(id, 64);
  core_p_->progress();
  EXPECT_EQ(pools_d_->mismatches(table_d(64), 1, 0, 64), 0u) << "it did write";
  settle();
  EXPECT_FALSE(happened<TicketReleased>(at_d_));
  EXPECT_FALSE(happened<TransferCommitted>(at_d_));
  // It finds the session gone and lets go of the memory.
  core_p_->on_channel_lost(1, "");
  EXPECT_TRUE(happened<TransferFailed>(at_p_));
  settle();
  EXPECT_TRUE(happened<TicketReleased>(at_d_));
  EXPECT_EQ(core_d_->tickets(), 0u);
}

TEST_F(PutsTest, ASenderThatComesBackFreesWhatItHeld) {
  TransferId id = 0;
  granted(64, &id);
  pass_at_d(5s);
  EXPECT_TRUE(happened<TicketAborted>(at_d_));
  core_p_->on_channel_lost(1, "");
  settle();
  EXPECT_TRUE(happened<TicketReleased>(at_d_));
  pass(3s);
  TransferId second = 0;
  granted(64, &second);
  core_p_->commit(second, {{}}, {});
  settle();
  EXPECT_TRUE(happened<TransferCommitted>(at_d_));
}

TEST_F(PutsTest, ARunningEndDoesNotWaitForWriters) {
  granted(64);
  core_d_->shut_down(cancelled("the worker is shutting down"));
  core_d_->progress();
  EXPECT_TRUE(core_d_->idle()) << "its memory goes with it";
}

// ---------------------------------------------------------------- the choice of the transport

// A decode worker whose pools cannot be opened: its address names another file.
class Unreachable final : public DataPath {
 public:
  explicit Unreachable(std::unique_ptr<DataPath> path)
      : path_(std::move(path)), address_(path_->address()) {
    address_[address_.size() - 3 * 8] ^= 1;  // the inode of the last rank
  }
  std::string_view transport() const override { return path_->transport(); }
  const std::string& address() const override { return address_; }
  Result<PathPeer> connect(const std::string& address) override { return path_->connect(address); }
  Status check_lane(PathPeer peer) const override { return path_->check_lane(peer); }
  bool puts() const override { return true; }
  std::span<const kv_cache::KvPool> pools_of(PathPeer peer) const override {
    return path_->pools_of(peer);
  }
  void send(PathPeer, std::span<const std::byte>, std::span<const IoSlice>,
            std::span<const IoSlice>, uint64_t) override {}
  void close(PathPeer peer) override { path_->close(peer); }
  int progress(DataPathEvents& events) override { return path_->progress(events); }
  bool outstanding() const override { return path_->outstanding(); }
  int poll_fd() const override { return path_->poll_fd(); }
  bool arm() override { return path_->arm(); }

 private:
  std::unique_ptr<DataPath> path_;
  std::string address_;
};

class PassedOverTest : public CoreTest {
 protected:
  void start_with(bool second) {
    puts_ = true;
    start();
    core_p_.reset();
    core_d_.reset();
    path_d_ = std::make_unique<Unreachable>(std::move(path_d_));
    second_p_ = InprocPath::create(hub_).value();
    second_d_ = InprocPath::create(hub_).value();
    std::vector<DataPath*> paths_p = {path_p_.get()};
    std::vector<DataPath*> paths_d = {path_d_.get()};
    if (second) {
      paths_p.push_back(second_p_.get());
      paths_d.push_back(second_d_.get());
    }
    core_p_ =
        std::make_unique<TransferCore>(test_options(*pools_p_, wire::Role::kPrefill, "p0", 11),
                                       paths_p, net_.p, clock_, random_, metrics_p_, at_p_.sink());
    core_d_ =
        std::make_unique<TransferCore>(test_options(*pools_d_, wire::Role::kDecode, "d0", 22),
                                       paths_d, net_.d, clock_, random_, metrics_d_, at_d_.sink());
  }
  std::unique_ptr<DataPath> second_p_, second_d_;
};

TEST_F(PassedOverTest, TheNextTransportIsTakenWhenThePoolsCannotBeMapped) {
  start_with(true);
  TransferId id = 0;
  granted(64, &id);
  core_p_->commit(id, {{}}, {});
  settle();
  const auto committed = at_d_.take<TransferCommitted>({}, 0s);
  ASSERT_TRUE(committed) << "no request has failed for it";
  EXPECT_EQ(committed->transport, "inproc");
  EXPECT_EQ(registry_p_.counter(metrics::MetricId::kKvTransportsPassedOver, {"pool"}).value(), 1);
  ASSERT_EQ(core_p_->links().size(), 1u);
  EXPECT_EQ(core_p_->links()[0].transport, "inproc");
  ASSERT_EQ(core_d_->links().size(), 1u);
  EXPECT_EQ(core_d_->links()[0].transport, "inproc");
}

TEST_F(PassedOverTest, WithoutAnotherTheReasonIsTold) {
  start_with(false);
  open(64);
  const auto failed = at_p_.take<TransferFailed>({}, 0s);
  ASSERT_TRUE(failed);
  EXPECT_THAT(failed->status.message(), HasSubstr("is another file"));
}

}  // namespace
}  // namespace baton::kv_transfer
