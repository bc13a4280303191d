// State machines, timers and refusals: the core under a clock that moves when told, with a network
// in memory and the in-process data path.

#include "kv_transfer/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <set>

#include "kv_transfer/test_worker.h"
#include "kv_transfer/transports/inproc/inproc_path.h"

namespace baton::kv_transfer {
namespace {

using testing::HasSubstr;

// One link between P and D; each side's port is an end of it. Messages wait until delivered, and
// can be dropped or looked at on the way.
class Network {
 public:
  struct End final : ControlPort {
    Result<ChannelId> connect(const std::string& address) override {
      if (address.starts_with("bad")) {
        return invalid_argument("bad address");
      }
      ++connects;
      // Both ends name a connection alike.
      return static_cast<ChannelId>(connects);
    }
    Status send(ChannelId channel, const wire::Message& message) override {
      if (broken) {
        return unavailable("broken");
      }
      sent.emplace_back(channel, message);
      return Status();
    }
    void close(ChannelId channel) override { closed.push_back(channel); }
    std::deque<std::pair<ChannelId, wire::Message>> sent;
    std::vector<ChannelId> closed;
    int connects = 0;
    bool broken = false;
  };
  End p, d;
};

class CoreTest : public testing::Test {
 protected:
  CoreTest()
      : registry_p_({metrics::kByPrefill, "m", "p0", 1000}),
        registry_d_({metrics::kByDecode, "m", "d0", 1000}),
        metrics_p_(registry_p_),
        metrics_d_(registry_d_),
        path_p_(InprocPath::create(hub_).value()),
        path_d_(InprocPath::create(hub_).value()) {}

  void start(const TestShape& p = {}, const TestShape& d = {}, bool digest = true) {
    pools_p_.emplace(p);
    pools_d_.emplace(d);
    AgentOptions options_p = test_options(*pools_p_, wire::Role::kPrefill, "p0", 11);
    AgentOptions options_d = test_options(*pools_d_, wire::Role::kDecode, "d0", 22);
    options_p.digest = options_d.digest = digest;
    core_p_ = make(options_p, *path_p_, net_.p, at_p_);
    core_d_ = make(options_d, *path_d_, net_.d, at_d_);
  }
  std::unique_ptr<TransferCore> make(const AgentOptions& options, DataPath& path, ControlPort& port,
                                     EventLog& log) {
    TransferMetrics& metrics = options.role == wire::Role::kPrefill ? metrics_p_ : metrics_d_;
    return std::make_unique<TransferCore>(options, std::vector<DataPath*>{&path}, port, clock_,
                                          random_, metrics, log.sink());
  }

  // Delivers what is on its way and lets the data paths work, until nothing happens any more.
  void settle() {
    for (int quiet = 0; quiet < 3;) {
      int done = core_p_->progress() + core_d_->progress();
      done += deliver(net_.p, *core_d_) + deliver(net_.d, *core_p_);
      quiet = done == 0 ? quiet + 1 : 0;
    }
  }
  int deliver(Network::End& from, TransferCore& to) {
    int done = 0;
    while (!from.sent.empty()) {
      auto [channel, message] = std::move(from.sent.front());
      from.sent.pop_front();
      if (!drop_ || !drop_(message)) {
        to.on_message(channel, std::move(message));
      }
      ++done;
    }
    return done;
  }
  // Time passes in steps, as it does for an agent.
  void pass(Duration time, Duration step = 100ms) {
    for (Duration t{}; t < time; t += step) {
      clock_.advance(step);
      core_p_->poll(stuck_p_);
      core_d_->poll(false);
      settle();
    }
  }

  TransferId open(int tokens, TimePoint deadline = TimePoint::max()) {
    OpenTransfer request;
    request.target = {"d0", Incarnation{22}, "net"};
    request.body = test_body(tokens, next_id_);
    request.kv_tokens = tokens;
    request.deadline = deadline;
    const int blocks = pools_p_->blocks_for(tokens);
    for (int i = 0; i < blocks; ++i) {
      request.blocks.push_back(static_cast<BlockId>(i));
    }
    if (fill_on_open_) {
      pools_p_->zero_values(request.blocks);
      pools_p_->write(request.blocks, 1, 0, tokens);
    }
    const TransferId id = next_id_++;
    core_p_->open(id, std::move(request));
    settle();
    return id;
  }
  std::vector<BlockId> table_d(int tokens) {
    std::vector<BlockId> table;
    for (int i = 0; i < pools_d_->blocks_for(tokens); ++i) {
      table.push_back(static_cast<BlockId>(30 + i));
    }
    return table;
  }
  // Opens and grants; the reservation.
  uint64_t granted(int tokens, TransferId* id = nullptr, int have = 0) {
    const TransferId opened = open(tokens);
    if (id != nullptr) {
      *id = opened;
    }
    const auto reserve = at_d_.take<ReserveArrived>({}, 0s);
    EXPECT_TRUE(reserve);
    core_d_->grant(reserve->reservation, table_d(tokens), have);
    settle();
    return reserve->reservation;
  }
  void write_all(TransferId id, int tokens) {
    for (int layer = 0; layer < pools_p_->shape().layers; ++layer) {
      for (size_t rank = 0; rank < pools_p_->shape().ranks.size(); ++rank) {
        core_p_->layer_written(id, static_cast<int>(rank), layer, tokens);
      }
    }
  }
  template <typename T>
  bool happened(EventLog& log) {
    return log.take<T>({}, 0s).has_value();
  }
  double dropped(DropReason reason) {
    const auto id = metrics::MetricId::kKvMessagesDropped;
    return registry_p_.counter(id, {to_string(reason)}).value() +
           registry_d_.counter(id, {to_string(reason)}).value();
  }

  FakeClock clock_;
  SeededRandom random_{7};
  metrics::Registry registry_p_, registry_d_;
  TransferMetrics metrics_p_, metrics_d_;
  InprocHub hub_;
  std::unique_ptr<DataPath> path_p_, path_d_;
  Network net_;
  EventLog at_p_, at_d_;
  std::optional<TestPools> pools_p_, pools_d_;
  std::unique_ptr<TransferCore> core_p_, core_d_;
  std::function<bool(const wire::Message&)> drop_;
  bool stuck_p_ = false;
  bool fill_on_open_ = true;
  TransferId next_id_ = 1;
};

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
  EXPECT_TRUE(happened<TransferFailed>(at_p_));
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

// ---------------------------------------------------------------- hostile DATA

class HostileDataTest : public CoreTest {
 protected:
  void SetUp() override {
    start();
    granted(64);
    attacker_ = InprocPath::create(hub_).value();
    peer_ = attacker_->connect(path_d_->address()).value();
    // The valid header of layer 0, first piece; slot and generation from the GRANT.
    const auto grant = find_grant();
    good_.slot = grant.slot;
    good_.generation = grant.generation;
    good_.head_hi = 3;
    good_.token_hi = 32;
    bytes_.assign(3 * 32 * 2 * 16 * 2, std::byte{0xab});
    const IoSlice all{bytes_.data(), bytes_.size()};
    good_.digest = payload_digest({&all, 1});
  }
  wire::Grant find_grant() {
    // A COMMIT_ACK of nonsense would not tell; ask for the grant again instead.
    wire::Reserve again;
    again.reserve_id = 1;
    again.kv_tokens = 64;
    again.body = test_body(64, 1);
    again.key = again.body.key;
    core_d_->on_message(1, wire::Message(again));
    const auto* grant = std::get_if<wire::Grant>(&net_.d.sent.back().second);
    EXPECT_NE(grant, nullptr);
    return *grant;
  }
  // Whether the receiver took it.
  bool push(std::span<const std::byte> header, size_t bytes) {
    const std::vector<BlockId> table = table_d(64);
    const uint64_t before = pools_d_->checksum(table[0]) + 7 * pools_d_->checksum(table[1]);
    const IoSlice slice{bytes_.data(), bytes};
    attacker_->send(peer_, header, {&slice, 1}, ++cookie_);
    settle();
    const uint64_t after = pools_d_->checksum(table[0]) + 7 * pools_d_->checksum(table[1]);
    return before != after;
  }
  bool push(const DataHeader& header, size_t bytes = 3 * 32 * 2 * 16 * 2) {
    return push(encode_header(header), bytes);
  }

  std::unique_ptr<DataPath> attacker_;
  PathPeer peer_ = 0;
  DataHeader good_;
  std::vector<std::byte> bytes_;
  uint64_t cookie_ = 0;
};

TEST_F(HostileDataTest, TakesTheGoodOneAndRefusesItsDouble) {
  EXPECT_TRUE(push(good_));
  bytes_.assign(bytes_.size(), std::byte{0xcd});
  EXPECT_FALSE(push(good_));
  EXPECT_EQ(dropped(DropReason::kDuplicate), 1);
}

TEST_F(HostileDataTest, RefusesHeadersThatAreNone) {
  auto bytes = encode_header(good_);
  EXPECT_FALSE(push(std::span(bytes).first(10), 100));
  EXPECT_FALSE(push(std::span<const std::byte>(), 100));
  bytes[0] ^= std::byte{1};
  EXPECT_FALSE(push(bytes, bytes_.size()));
  bytes[0] ^= std::byte{1};
  bytes[4] ^= std::byte{2};  // version
  EXPECT_FALSE(push(bytes, bytes_.size()));
  EXPECT_EQ(dropped(DropReason::kBadHeader), 4);
}

TEST_F(HostileDataTest, RefusesOtherTickets) {
  for (auto change :
       {+[](DataHeader& h) { h.slot = 0; }, +[](DataHeader& h) { h.slot += 1; },
        +[](DataHeader& h) { h.slot = 0xFFFFFFFF; }, +[](DataHeader& h) { h.generation -= 1; },
        +[](DataHeader& h) { h.generation = 0; }}) {
    DataHeader bad = good_;
    change(bad);
    EXPECT_FALSE(push(bad));
  }
  EXPECT_EQ(dropped(DropReason::kUnknownTicket), 5);
}

TEST_F(HostileDataTest, RefusesRangesThatTheTicketDoesNotHave) {
  const auto changes = {+[](DataHeader& h) { h.dst_rank = 1; },
                        +[](DataHeader& h) { h.layer = 3; },
                        +[](DataHeader& h) { h.layer = 0xFFFF; },
                        +[](DataHeader& h) { h.group = 1; },
                        +[](DataHeader& h) { h.head_lo = 1; },
                        +[](DataHeader& h) { h.head_hi = 4; },
                        +[](DataHeader& h) { h.token_lo = 16; },
                        +[](DataHeader& h) { h.token_lo = 64, h.token_hi = 96; },
                        +[](DataHeader& h) { h.token_lo = 32, h.token_hi = 32; },
                        +[](DataHeader& h) { h.token_lo = 32, h.token_hi = 0; },
                        +[](DataHeader& h) { h.token_hi = 0xFFFFFFE0; },
                        +[](DataHeader& h) { h.token_lo = 0xFFFFFFE0; }};
  for (auto change : changes) {
    DataHeader bad = good_;
    change(bad);
    EXPECT_FALSE(push(bad));
  }
  EXPECT_EQ(dropped(DropReason::kBadRange), static_cast<double>(changes.size()));
}

TEST_F(HostileDataTest, RefusesOtherLengths) {
  EXPECT_FALSE(push(good_, bytes_.size() - 1));
  EXPECT_FALSE(push(good_, 1));
  DataHeader longer = good_;
  longer.token_hi = 64;
  EXPECT_FALSE(push(longer));
  EXPECT_EQ(dropped(DropReason::kBadLength), 3);
}

TEST_F(HostileDataTest, RefusesEverythingAfterTheEndOfTheTicket) {
  core_d_->abort_reservation(1, "client");
  settle();
  EXPECT_FALSE(push(good_));
  EXPECT_EQ(dropped(DropReason::kUnknownTicket), 1);
}

TEST_F(HostileDataTest, GivesTheNextTicketAnotherGeneration) {
  core_d_->abort_reservation(1, "client");
  settle();
  granted(64);
  EXPECT_FALSE(push(good_));
  EXPECT_EQ(dropped(DropReason::kUnknownTicket), 1);
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
  core_p_->on_message(1, wire::Message(wire::Grant{99, 1, 1, 0, 0}));
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

// ---------------------------------------------------------------- random rounds

// Many transfers with random sizes, grants, denials, aborts of both sides and lost messages. Each
// transfer ends once; each granted ticket ends once, by commit or by release; what is committed is
// right; in the end nothing is left.
class RandomRoundsTest : public CoreTest, public testing::WithParamInterface<uint64_t> {};

TEST_P(RandomRoundsTest, EveryTransferAndEveryTicketEndsExactlyOnce) {
  TestShape shape;
  shape.layers = 2;
  shape.blocks = 40;
  TestShape shape_d = shape;
  SeededRandom dice(GetParam());
  auto pick = [&](uint64_t n) { return dice.next() % n; };
  shape_d.block_tokens = pick(2) == 0 ? 32 : 64;
  shape.ranks = head_ranges(9, 3, 4, 1 << pick(3));
  shape_d.ranks = head_ranges(9, 3, 4, 1 << pick(3));
  start(shape, shape_d);
  drop_ = [&](const wire::Message& m) {
    const bool hello =
        std::holds_alternative<wire::Hello>(m) || std::holds_alternative<wire::HelloReply>(m);
    return !hello && pick(20) == 0;
  };
  // All transfers read the same blocks, written once.
  fill_on_open_ = false;
  pools_p_->write({0, 1, 2, 3, 4}, 1, 0, 160);
  struct Known {
    TransferId id = 0;
    int tokens = 0;
  };
  std::vector<Known> transfers;
  std::map<uint64_t, int> granted_tokens;  // reservation -> tokens
  std::map<uint64_t, std::vector<BlockId>> tables;
  std::set<BlockId> used;
  std::map<uint64_t, int> ended;
  std::map<TransferId, int> finals;

  auto collect = [&] {
    while (auto e = at_d_.take<TransferCommitted>({}, 0s)) {
      ++ended[e->reservation];
      EXPECT_EQ(pools_d_->mismatches(tables[e->reservation], 1, 0, granted_tokens[e->reservation]),
                0u);
      for (const BlockId id : tables[e->reservation]) {
        used.erase(id);
      }
    }
    while (auto e = at_d_.take<TicketReleased>({}, 0s)) {
      ++ended[e->reservation];
      for (const BlockId id : tables[e->reservation]) {
        used.erase(id);
      }
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
      std::vector<BlockId> table;
      for (BlockId id = 0;
           static_cast<int>(id) < shape_d.blocks &&
           static_cast<int>(table.size()) < pools_d_->blocks_for(reserve->kv_tokens);
           ++id) {
        if (!used.contains(id)) {
          table.push_back(id);
        }
      }
      if (static_cast<int>(table.size()) < pools_d_->blocks_for(reserve->kv_tokens)) {
        core_d_->deny(reserve->reservation, resource_exhausted("full"), 5);
        continue;
      }
      used.insert(table.begin(), table.end());
      granted_tokens[reserve->reservation] = reserve->kv_tokens;
      tables[reserve->reservation] = table;
      pools_d_->zero_values(table);
      core_d_->grant(reserve->reservation, std::move(table), 0);
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
  EXPECT_EQ(core_p_->transfers(), 0u);
  EXPECT_EQ(core_d_->tickets(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRoundsTest, testing::Range<uint64_t>(1, 41));

}  // namespace
}  // namespace baton::kv_transfer
