// Timers, losses, refusals and aborts of both sides, without threads and sockets.

#include "kv_transfer/core.h"

#include <gtest/gtest.h>

#include "kv_transfer/core_fixture.h"

namespace baton::kv_transfer {
namespace {

TEST_F(CoreTest, PushesLayersAsTheyAreWritten) {
  start();
  TransferId id = 0;
  granted(96, &id);
  core_p_->layer_written(id, 0, 1, 40);
  settle();
  // Layer 1 of the first piece is there before the rest is computed.
  const double sent =
      registry_p_.counter(metrics::MetricId::kKvTransferBytes, {"sent", "inproc"}).value();
  EXPECT_EQ(sent, 3 * 32 * 2 * 16 * 2);
  write_all(id, 96);
  core_p_->commit(id, {{}}, {});
  settle();
  EXPECT_TRUE(happened<TransferCommitted>(at_d_));
  EXPECT_TRUE(happened<TransferAcked>(at_p_));
  EXPECT_EQ(pools_d_->mismatches(table_d(96), 1, 0, 96), 0u);
}

TEST_F(CoreTest, RefusesAFlippedByteWhenDigestsAreOn) {
  start();
  TransferId id = 0;
  granted(64, &id);
  write_all(id, 64);
  core_p_->progress();  // posted, digest taken
  *pools_p_->pool(0).group(0, 0, false, 0, 0) ^= std::byte{1};
  core_p_->commit(id, {{}}, {});
  settle();
  EXPECT_FALSE(happened<TransferCommitted>(at_d_));
  EXPECT_TRUE(happened<TicketAborted>(at_d_));
  EXPECT_TRUE(happened<TicketReleased>(at_d_));
  const auto failed = at_p_.take<TransferFailed>({}, 0s);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status.code(), StatusCode::kUnavailable) << "another try may do";
  EXPECT_EQ(dropped(DropReason::kDigest), 1);
}

TEST_F(CoreTest, CarriesAFlippedByteWhenDigestsAreOff) {
  start({}, {}, false);
  TransferId id = 0;
  granted(64, &id);
  write_all(id, 64);
  core_p_->progress();
  *pools_p_->pool(0).group(0, 0, false, 0, 0) ^= std::byte{1};
  core_p_->commit(id, {{}}, {});
  settle();
  EXPECT_TRUE(happened<TransferCommitted>(at_d_));
  EXPECT_EQ(pools_d_->mismatches(table_d(64), 1, 0, 64), 1u);
}

TEST_F(CoreTest, TouchesNothingButTheGrantedBlocks) {
  start();
  const uint64_t before = pools_d_->checksum(29) + pools_d_->checksum(32);
  TransferId id = 0;
  granted(64, &id);
  write_all(id, 64);
  core_p_->commit(id, {{}}, {});
  settle();
  ASSERT_TRUE(happened<TransferCommitted>(at_d_));
  EXPECT_EQ(pools_d_->checksum(29) + pools_d_->checksum(32), before);
}

// ---------------------------------------------------------------- timers

TEST_F(CoreTest, EndsWithTheRequestsDeadlineWhileWaitingForRoom) {
  start();
  open(64, clock_.now() + 3s);
  pass(2s);
  EXPECT_FALSE(happened<TransferFailed>(at_p_));
  pass(2s);
  const auto failed = at_p_.take<TransferFailed>({}, 0s);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(happened<ReserveWithdrawn>(at_d_));
}

TEST_F(CoreTest, AsksAgainWhenAReserveWasLost) {
  start();
  int lost = 0;
  drop_ = [&](const wire::Message& m) {
    return std::holds_alternative<wire::Reserve>(m) && lost++ == 0;
  };
  open(64);
  EXPECT_FALSE(happened<ReserveArrived>(at_d_));
  pass(1s);
  EXPECT_TRUE(happened<ReserveArrived>(at_d_));
  pass(10s);
  EXPECT_EQ(at_d_.count<ReserveArrived>(), 0u) << "asked again, told once";
}

TEST_F(CoreTest, NeverGivesUpAskingForALostGrant) {
  start();
  int lost = 0;
  drop_ = [&](const wire::Message& m) {
    return std::holds_alternative<wire::Grant>(m) && lost++ < 6;
  };
  granted(64);
  pass(12s);
  EXPECT_TRUE(happened<TransferGranted>(at_p_));
}

// A RESERVE that was sent again crosses the DENY: the decode worker sees it as a new one.
TEST_F(CoreTest, ATicketThatNobodyWantsIsGivenBackAtOnce) {
  start();
  const TransferId id = open(64);
  const auto reserve = at_d_.take<ReserveArrived>({}, 0s);
  ASSERT_TRUE(reserve);
  core_d_->deny(reserve->reservation, resource_exhausted("full"), 5);
  wire::Reserve again;
  again.reserve_id = id;
  again.kv_tokens = 64;
  again.body = test_body(64, id);
  core_d_->on_message(1, wire::Message(again));
  settle();
  EXPECT_TRUE(happened<TransferFailed>(at_p_));
  const auto second = at_d_.take<ReserveArrived>({}, 0s);
  ASSERT_TRUE(second);
  core_d_->grant(second->reservation, table_d(64), 0);
  settle();
  EXPECT_TRUE(happened<TicketAborted>(at_d_));
  EXPECT_TRUE(happened<TicketReleased>(at_d_));
  EXPECT_EQ(core_d_->tickets(), 0u);
}

TEST_F(CoreTest, ATicketWhoseRefusalIsLostIsGivenBackByTheNextGrant) {
  start();
  TransferId id = 0;
  granted(64, &id);
  drop_ = [](const wire::Message& m) { return std::holds_alternative<wire::Abort>(m); };
  core_p_->abort(id, "cancelled");
  pass(1s);
  EXPECT_EQ(core_d_->tickets(), 1u);
  drop_ = nullptr;
  pass(4s);
  EXPECT_EQ(core_d_->tickets(), 0u);
}

// The receiver's ABORT names a ticket that the sender never heard of.
TEST_F(CoreTest, AnAbortOfAnUnknownTicketEndsTheReservation) {
  start();
  drop_ = [](const wire::Message& m) { return std::holds_alternative<wire::Grant>(m); };
  const uint64_t reservation = granted(64);
  core_d_->abort_reservation(reservation, "cancelled");
  settle();
  EXPECT_TRUE(happened<TransferFailed>(at_p_));
  pass(100ms);
  EXPECT_EQ(core_p_->transfers(), 0u);
}

TEST_F(CoreTest, SendsALostGrantAgain) {
  start();
  int lost = 0;
  drop_ = [&](const wire::Message& m) {
    return std::holds_alternative<wire::Grant>(m) && lost++ == 0;
  };
  granted(64);
  EXPECT_FALSE(happened<TransferGranted>(at_p_));
  pass(1s);
  EXPECT_TRUE(happened<TransferGranted>(at_p_));
}

TEST_F(CoreTest, RepeatsALostCommit) {
  start();
  int lost = 0;
  drop_ = [&](const wire::Message& m) {
    return std::holds_alternative<wire::Commit>(m) && lost++ == 0;
  };
  TransferId id = 0;
  granted(64, &id);
  core_p_->commit(id, {{}}, {});
  settle();
  EXPECT_FALSE(happened<TransferCommitted>(at_d_));
  pass(1s);
  EXPECT_TRUE(happened<TransferCommitted>(at_d_));
  EXPECT_TRUE(happened<TransferAcked>(at_p_));
}

TEST_F(CoreTest, LearnsOfACommitWhoseAcknowledgementWasLost) {
  start();
  drop_ = [&](const wire::Message& m) { return std::holds_alternative<wire::CommitAck>(m); };
  TransferId id = 0;
  granted(64, &id);
  core_p_->commit(id, {{}}, {});
  settle();
  EXPECT_TRUE(happened<TransferCommitted>(at_d_));
  pass(1s);
  EXPECT_TRUE(happened<TransferAcked>(at_p_));
  EXPECT_EQ(at_d_.count<TransferCommitted>(), 0u) << "committed once";
}

TEST_F(CoreTest, GivesUpACommitThatNobodyAnswers) {
  start();
  drop_ = [&](const wire::Message& m) {
    return std::holds_alternative<wire::Commit>(m) || std::holds_alternative<wire::StatusQuery>(m);
  };
  TransferId id = 0;
  granted(64, &id);
  core_p_->commit(id, {{}}, {});
  pass(5s);
  const auto failed = at_p_.take<TransferFailed>({}, 0s);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(happened<TicketReleased>(at_d_));
}

TEST_F(CoreTest, ALeaseOfAForgottenTicketRunsOut) {
  start();
  granted(64);
  pass(50s, 150ms);
  EXPECT_FALSE(happened<TicketAborted>(at_d_)) << "heartbeats keep it";
  pass(20s, 150ms);
  const auto aborted = at_d_.take<TicketAborted>({}, 0s);
  ASSERT_TRUE(aborted);
  EXPECT_EQ(aborted->status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(happened<TicketReleased>(at_d_));
  const auto failed = at_p_.take<TransferFailed>({}, 0s);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(registry_d_.counter(metrics::MetricId::kKvLeaseExpired).value(), 1);
}

TEST_F(CoreTest, APeerThatFallsSilentIsLost) {
  start();
  TransferId id = 0;
  granted(64, &id);
  write_all(id, 64);
  drop_ = [](const wire::Message& m) { return std::holds_alternative<wire::PeerHeartbeat>(m); };
  pass(2s);
  const auto failed = at_p_.take<TransferFailed>({}, 0s);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status.code(), StatusCode::kWorkerLost);
  EXPECT_FALSE(failed->data_lost);
  EXPECT_TRUE(happened<TicketAborted>(at_d_));
  EXPECT_TRUE(happened<TicketReleased>(at_d_));
  EXPECT_TRUE(happened<PeerLost>(at_p_));
  EXPECT_TRUE(happened<PeerLost>(at_d_));
  EXPECT_TRUE(core_p_->links().empty());
}

TEST_F(CoreTest, APeerThatSaysItIsStuckIsLost) {
  start();
  granted(64);
  stuck_p_ = true;
  pass(500ms);
  EXPECT_TRUE(happened<TicketReleased>(at_d_));
}

TEST_F(CoreTest, OwnLatenessIsNotBlamedOnThePeer) {
  start();
  granted(64);
  pass(200ms);
  clock_.advance(30s);
  core_d_->poll(false);
  core_p_->poll(false);
  settle();
  pass(1s);
  EXPECT_FALSE(happened<TicketAborted>(at_d_));
  EXPECT_FALSE(happened<TransferFailed>(at_p_));
}

TEST_F(CoreTest, ABrokenChannelEndsTheSession) {
  start();
  granted(64);
  net_.p.broken = true;
  pass(500ms);
  const auto failed = at_p_.take<TransferFailed>({}, 0s);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status.code(), StatusCode::kWorkerLost);
}

TEST_F(CoreTest, AFailedAddressRestsBeforeTheNextTry) {
  start();
  drop_ = [](const wire::Message&) { return true; };
  open(64);
  pass(2s);  // the handshake's limit
  EXPECT_TRUE(happened<TransferFailed>(at_p_));
  const int connects = net_.p.connects;
  open(64);
  const auto failed = at_p_.take<TransferFailed>({}, 0s);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(net_.p.connects, connects);
  pass(200ms);
  open(64);
  EXPECT_EQ(net_.p.connects, connects + 1);
}

TEST_F(CoreTest, AnUnusableAddressFailsAtOnce) {
  start();
  OpenTransfer request;
  request.target = {"d1", Incarnation{9}, "bad"};
  request.body = test_body(4, 1);
  request.kv_tokens = 4;
  request.blocks = {0};
  request.deadline = TimePoint::max();
  core_p_->open(77, std::move(request));
  const auto failed = at_p_.take<TransferFailed>({}, 0s);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->id, 77u);
  EXPECT_EQ(failed->status.code(), StatusCode::kInvalidArgument);
}

// ---------------------------------------------------------------- aborts in every state

TEST_F(CoreTest, AnAbortBeforeTheSessionStandsEndsAtOnce) {
  start();
  drop_ = [](const wire::Message&) { return true; };
  const TransferId id = open(64);
  core_p_->abort(id, "client");
  EXPECT_TRUE(happened<TransferFailed>(at_p_));
  core_p_->abort(id, "client");
  EXPECT_FALSE(happened<TransferFailed>(at_p_)) << "once";
}

TEST_F(CoreTest, AnAbortWhileWaitingForRoomWithdraws) {
  start();
  const TransferId id = open(64);
  const auto reserve = at_d_.take<ReserveArrived>({}, 0s);
  ASSERT_TRUE(reserve);
  core_p_->abort(id, "client");
  settle();
  EXPECT_TRUE(happened<ReserveWithdrawn>(at_d_));
  EXPECT_TRUE(happened<TransferFailed>(at_p_));
  // The loop's answer was on its way.
  core_d_->grant(reserve->reservation, table_d(64), 0);
  settle();
  EXPECT_EQ(core_d_->tickets(), 0u);
}

TEST_F(CoreTest, AnAbortThatCrossesTheGrantFreesTheTicket) {
  start();
  const TransferId id = open(64);
  const auto reserve = at_d_.take<ReserveArrived>({}, 0s);
  ASSERT_TRUE(reserve);
  core_d_->grant(reserve->reservation, table_d(64), 0);  // on its way
  core_p_->abort(id, "client");
  settle();
  EXPECT_TRUE(happened<TicketAborted>(at_d_));
  EXPECT_TRUE(happened<TicketReleased>(at_d_));
  EXPECT_TRUE(happened<TransferFailed>(at_p_));
  EXPECT_EQ(core_d_->tickets(), 0u);
}

TEST_F(CoreTest, AnAbortThatCrossesTheAcknowledgementIsTooLate) {
  start();
  TransferId id = 0;
  granted(64, &id);
  drop_ = [](const wire::Message& m) { return std::holds_alternative<wire::CommitAck>(m); };
  core_p_->commit(id, {{}}, {});
  settle();
  ASSERT_TRUE(happened<TransferCommitted>(at_d_));
  drop_ = nullptr;
  core_p_->abort(id, "client");
  settle();
  EXPECT_TRUE(happened<TransferAcked>(at_p_)) << "the receiver has it";
  EXPECT_FALSE(happened<TransferFailed>(at_p_));
  EXPECT_FALSE(happened<TicketAborted>(at_d_));
}

TEST_F(CoreTest, APeerThatDoesNotAnswerAnAbortIsLost) {
  start();
  TransferId id = 0;
  granted(64, &id);
  drop_ = [](const wire::Message& m) { return std::holds_alternative<wire::AbortAck>(m); };
  core_p_->abort(id, "client");
  settle();
  EXPECT_FALSE(happened<TransferFailed>(at_p_));
  pass(3s);
  const auto failed = at_p_.take<TransferFailed>({}, 0s);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status.code(), StatusCode::kCancelled);
  EXPECT_TRUE(happened<PeerLost>(at_p_));
}

TEST_F(CoreTest, ARequestTooLargeForThePoolIsDeniedWithoutAskingTheLoop) {
  TestShape small;
  small.blocks = 2;
  start({}, small);
  open(100);
  const auto failed = at_p_.take<TransferFailed>({}, 0s);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status.code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(happened<ReserveArrived>(at_d_));
}

TEST_F(CoreTest, CountsMessagesThatMeanNothing) {
  start();
  granted(64);
  core_p_->on_message(1, wire::Message(wire::Grant{99, 1, 1, 0, 0, 0, {}, {}}));
  core_p_->on_message(1, wire::Message(wire::CommitAck{9, 9, true, ""}));
  core_p_->on_message(1, wire::Message(wire::Reserve{}));
  core_d_->on_message(1, wire::Message(wire::Grant{}));
  core_d_->on_message(77, wire::Message(wire::Reserve{}));
  core_d_->on_message(1, wire::Message(wire::Commit{}));
  core_d_->on_message(1, invalid_argument("garbage"));
  EXPECT_EQ(dropped(DropReason::kUnknownTicket), 3);
  EXPECT_EQ(dropped(DropReason::kUnexpected), 2);
  EXPECT_EQ(dropped(DropReason::kNoSession), 1);
  EXPECT_EQ(dropped(DropReason::kBadMessage), 1);
}

TEST_F(CoreTest, APeerOfAnotherLifeReplacesItsSession) {
  start();
  granted(64);
  wire::Hello hello;
  hello.name = "p0";
  hello.role = wire::Role::kPrefill;
  hello.incarnation = Incarnation{12};
  core_d_->on_message(
      50, wire::Message(hello));  // refused: it offers nothing, but p0 of before is gone
  settle();
  const auto lost = at_d_.take<PeerLost>({}, 0s);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->incarnation, Incarnation{11});
  EXPECT_TRUE(happened<TicketReleased>(at_d_));
}

TEST_F(CoreTest, ShuttingDownEndsEverythingOnBothSides) {
  start();
  TransferId id = 0;
  granted(64, &id);
  write_all(id, 64);
  core_p_->shut_down(cancelled("bye"));
  core_d_->shut_down(cancelled("bye"));
  settle();
  core_p_->poll(false);
  core_d_->poll(false);
  EXPECT_TRUE(core_p_->idle());
  EXPECT_TRUE(core_d_->idle());
  EXPECT_TRUE(happened<TransferFailed>(at_p_));
  EXPECT_TRUE(happened<TicketReleased>(at_d_));
}
}  // namespace
}  // namespace baton::kv_transfer
