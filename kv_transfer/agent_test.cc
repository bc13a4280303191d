// Two agents of one process over real sockets, with each transport.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/sockets.h"
#include "kv_transfer/test_worker.h"
#include "kv_transfer/transfer.h"
#include "kv_transfer/transports/inproc/inproc_path.h"

namespace baton::kv_transfer {
namespace {

using testing::HasSubstr;

std::vector<BlockId> ids(int first, int count, int stride = 1) {
  std::vector<BlockId> table;
  for (int i = 0; i < count; ++i) {
    table.push_back(static_cast<BlockId>(first + i * stride));
  }
  return table;
}

class AgentTest : public testing::TestWithParam<const char*> {
 protected:
  AgentTest()
      : metrics_p_({metrics::kByPrefill, "m", "p0", 1000}),
        metrics_d_({metrics::kByDecode, "m", "d0", 1000}) {}

  // Where the transport needs it.
  static TestShape shared(TestShape shape) {
    shape.shared = std::string(GetParam()) == "pool";
    return shape;
  }
  void start(const TestShape& p, const TestShape& d, bool digest = true) {
    pools_p_.emplace(p);
    pools_d_.emplace(shared(d));
    AgentOptions options_d = options(*pools_d_, wire::Role::kDecode, "d0", 22);
    AgentOptions options_p = options(*pools_p_, wire::Role::kPrefill, "p0", 11);
    options_p.digest = options_d.digest = digest;
    start_decode(options_d);
    start_prefill(options_p);
  }
  AgentOptions options(const TestPools& pools, wire::Role role, const char* name,
                       uint64_t incarnation) {
    AgentOptions made = test_options(pools, role, name, incarnation);
    made.transports = {GetParam()};
    made.inproc = &hub_;
    made.timeouts.handshake = 10s;
    return made;
  }
  void start_decode(const AgentOptions& options) {
    auto agent = TransferAgent::create(options, clock_, random_, metrics_d_, at_d_.sink());
    ASSERT_TRUE(agent.ok()) << agent.status().to_string();
    decode_ = std::move(*agent);
  }
  void start_prefill(const AgentOptions& options) {
    auto agent = TransferAgent::create(options, clock_, random_, metrics_p_, at_p_.sink());
    ASSERT_TRUE(agent.ok()) << agent.status().to_string();
    prefill_ = std::move(*agent);
  }

  TransferId open(int tokens, std::vector<BlockId> table, uint64_t request = 1) {
    OpenTransfer transfer;
    transfer.target = {"d0", Incarnation{22}, decode_->listen_address()};
    transfer.body = test_body(tokens, request);
    transfer.kv_tokens = tokens;
    transfer.blocks = std::move(table);
    transfer.deadline = TimePoint::max();
    return prefill_->open(std::move(transfer));
  }
  void write_layers(TransferId id, int tokens) {
    for (int rank = 0; rank < static_cast<int>(pools_p_->shape().ranks.size()); ++rank) {
      for (int layer = 0; layer < pools_p_->shape().layers; ++layer) {
        prefill_->layer_written(id, rank, layer, tokens);
      }
    }
  }

  // One whole transfer; checks both sides' events and the bytes.
  void transfer(int tokens, int have_tokens = 0, uint64_t seed = 5) {
    SCOPED_TRACE("tokens " + std::to_string(tokens) + " have " + std::to_string(have_tokens));
    const std::vector<BlockId> table_p = ids(3, pools_p_->blocks_for(tokens), 2);
    const std::vector<BlockId> table_d = ids(40, pools_d_->blocks_for(tokens), -1);
    pools_p_->zero_values(table_p);
    pools_d_->zero_values(table_d);
    pools_p_->write(table_p, seed, 0, tokens);
    pools_d_->write(table_d, seed, 0, have_tokens);
    const TransferId id = open(tokens, table_p);
    const auto reserve = at_d_.take<ReserveArrived>();
    ASSERT_TRUE(reserve);
    EXPECT_EQ(reserve->kv_tokens, tokens);
    EXPECT_EQ(reserve->body.prompt.size(), static_cast<size_t>(tokens));
    write_layers(id, tokens / 2);
    decode_->grant(reserve->reservation, table_d, have_tokens);
    const auto granted = at_p_.take<TransferGranted>();
    ASSERT_TRUE(granted);
    EXPECT_EQ(granted->have_tokens, have_tokens);
    write_layers(id, tokens);
    wire::CommittedChoice choice;
    choice.output = {42};
    prefill_->commit(id, {choice}, {});
    const auto committed = at_d_.take<TransferCommitted>();
    ASSERT_TRUE(committed);
    EXPECT_EQ(committed->reservation, reserve->reservation);
    ASSERT_EQ(committed->commit.choices.size(), 1u);
    EXPECT_EQ(committed->commit.choices[0].output, std::vector<TokenId>{42});
    EXPECT_EQ(committed->transport, GetParam());
    EXPECT_LT(clock_.now() - prefill_->last_turn(), 10s);
    const auto acked = at_p_.take<TransferAcked>();
    ASSERT_TRUE(acked);
    EXPECT_EQ(acked->id, id);
    EXPECT_EQ(acked->bytes, committed->bytes);
    EXPECT_EQ(acked->first_data_seconds > 0, acked->bytes > 0);
    EXPECT_LE(acked->first_data_seconds, acked->seconds);
    EXPECT_GT(acked->grant_seconds, 0);
    EXPECT_LE(acked->grant_seconds, acked->seconds);
    EXPECT_EQ(committed->commit.timings.first_data_ms, acked->first_data_seconds * 1e3);
    EXPECT_EQ(pools_d_->mismatches(table_d, seed, 0, tokens), 0u);
    EXPECT_EQ(pools_d_->nonzero_after(table_d, tokens), 0u) << "unused slots travel as zeros";
  }

  std::optional<wire::Context> here_, there_;  // outlive the agents
  SteadyClock clock_;
  SeededRandom random_{99};
  metrics::Registry metrics_p_, metrics_d_;
  InprocHub hub_;
  EventLog at_p_, at_d_;
  std::optional<TestPools> pools_p_, pools_d_;
  std::unique_ptr<TransferAgent> decode_, prefill_;
};

TEST_P(AgentTest, AKeyOfTheClusterIsNeededOnBothSides) {
  here_.emplace(wire::ClusterKey::parse("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=").value());
  there_.emplace(wire::ClusterKey::parse("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDI=").value());
  pools_p_.emplace(TestShape{});
  pools_d_.emplace(shared({}));
  AgentOptions options_d = options(*pools_d_, wire::Role::kDecode, "d0", 22);
  AgentOptions options_p = options(*pools_p_, wire::Role::kPrefill, "p0", 11);
  options_d.context = &*here_;
  options_p.context = &*there_;
  start_decode(options_d);
  start_prefill(options_p);
  open(64, ids(0, pools_p_->blocks_for(64)));
  const auto failed = at_p_.take<TransferFailed>();
  ASSERT_TRUE(failed);
  EXPECT_THAT(failed->status.message(), HasSubstr("d0: cluster key does not match"));
  prefill_.reset();
  options_p.context = &*here_;
  start_prefill(options_p);
  transfer(64);
}

TEST_P(AgentTest, HandsOverEveryByte) {
  start({}, {});
  for (const int tokens : {1, 31, 32, 33, 64, 200}) {
    transfer(tokens);
  }
  const auto up = at_p_.take<PeerUp>();
  ASSERT_TRUE(up);
  EXPECT_EQ(up->name, "d0");
  EXPECT_EQ(up->transport, GetParam());
  ASSERT_EQ(prefill_->links().size(), 1u);
  ASSERT_EQ(decode_->links().size(), 1u);
  EXPECT_EQ(decode_->links()[0].peer, "p0");
}

TEST_P(AgentTest, MovesOnlyWhatTheReceiverDoesNotHave) {
  start({}, {});
  transfer(200, 96);
  transfer(96, 96);
  const uint64_t piece = 3u * 32 * 2 * 16 * 2 * 3;  // heads, tokens, K and V, dim, bytes, layers
  EXPECT_EQ(
      metrics_d_.counter(metrics::MetricId::kKvTransferBytes, {"received", GetParam()}).value(),
      static_cast<double>(piece * 4));
  EXPECT_EQ(metrics_p_.counter(metrics::MetricId::kKvTransferBytes, {"sent", GetParam()}).value(),
            static_cast<double>(piece * 4));
}

TEST_P(AgentTest, MeetsOtherBlockSizes) {
  TestShape wide;
  wide.block_tokens = 64;
  start({}, wide);
  for (const int tokens : {1, 20, 33, 64, 65, 150}) {
    transfer(tokens);
  }
  transfer(150, 64);
}

TEST_P(AgentTest, MeetsSmallerBlocks) {
  TestShape wide;
  wide.block_tokens = 128;
  start(wide, {});
  for (const int tokens : {1, 20, 33, 64, 129, 150}) {
    transfer(tokens);
  }
}

TEST_P(AgentTest, MeetsEveryPairOfDegrees) {
  for (const int degree_p : {1, 2, 4}) {
    for (const int degree_d : {1, 2, 4}) {
      SCOPED_TRACE(std::to_string(degree_p) + " to " + std::to_string(degree_d));
      TestShape p, d;
      // 9 query heads on 3 KV heads, cut in 4: KV heads are replicated on neighbours.
      p.ranks = head_ranges(9, 3, 4, degree_p);
      d.ranks = head_ranges(9, 3, 4, degree_d);
      start(p, d);
      transfer(100);
      transfer(70, 32);
      prefill_.reset();
      decode_.reset();
    }
  }
}

TEST_P(AgentTest, PushesAllWhenTheGrantComesAfterTheCompute) {
  start({}, {});
  const std::vector<BlockId> table = ids(0, 4);
  pools_p_->zero_values(table);
  pools_p_->write(table, 1, 0, 100);
  const TransferId id = open(100, table);
  const auto reserve = at_d_.take<ReserveArrived>();
  ASSERT_TRUE(reserve);
  write_layers(id, 100);
  prefill_->commit(id, {{}}, {});
  decode_->grant(reserve->reservation, ids(10, 4), 0);
  ASSERT_TRUE(at_d_.take<TransferCommitted>());
  ASSERT_TRUE(at_p_.take<TransferAcked>());
  EXPECT_EQ(pools_d_->mismatches(ids(10, 4), 1, 0, 100), 0u);
}

TEST_P(AgentTest, EndsWhenTheReceiverDenies) {
  start({}, {});
  const TransferId id = open(100, ids(0, 4));
  const auto reserve = at_d_.take<ReserveArrived>();
  ASSERT_TRUE(reserve);
  decode_->deny(reserve->reservation, resource_exhausted("no blocks"), 1'234);
  const auto failed = at_p_.take<TransferFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->id, id);
  EXPECT_EQ(failed->status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(failed->retry_after_ms, 1'234u);
}

TEST_P(AgentTest, AbortOfTheSenderFreesTheTicket) {
  start({}, {});
  const TransferId id = open(100, ids(0, 4));
  const auto reserve = at_d_.take<ReserveArrived>();
  ASSERT_TRUE(reserve);
  decode_->grant(reserve->reservation, ids(10, 4), 0);
  ASSERT_TRUE(at_p_.take<TransferGranted>());
  write_layers(id, 64);
  prefill_->abort(id, "client");
  const auto failed = at_p_.take<TransferFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status.code(), StatusCode::kCancelled);
  const auto aborted = at_d_.take<TicketAborted>();
  ASSERT_TRUE(aborted);
  EXPECT_EQ(aborted->reservation, reserve->reservation);
  ASSERT_TRUE(at_d_.take<TicketReleased>());
  transfer(50);
}

TEST_P(AgentTest, AbortOfTheReceiverEndsTheTransfer) {
  start({}, {});
  open(100, ids(0, 4));
  const auto reserve = at_d_.take<ReserveArrived>();
  ASSERT_TRUE(reserve);
  decode_->grant(reserve->reservation, ids(10, 4), 0);
  ASSERT_TRUE(at_p_.take<TransferGranted>());
  decode_->abort_reservation(reserve->reservation, "client");
  const auto failed = at_p_.take<TransferFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(failed->status.message(), HasSubstr("client"));
  ASSERT_TRUE(at_d_.take<TicketReleased>());
}

TEST_P(AgentTest, RefusesAnotherModelWithTheReason) {
  pools_p_.emplace(TestShape{});
  pools_d_.emplace(shared({}));
  AgentOptions options_p = options(*pools_p_, wire::Role::kPrefill, "p0", 11);
  options_p.numerics = "inv-2";
  start_decode(options(*pools_d_, wire::Role::kDecode, "d0", 22));
  start_prefill(options_p);
  open(10, ids(0, 1));
  const auto failed = at_p_.take<TransferFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status.code(), StatusCode::kIncompatible);
  EXPECT_THAT(failed->status.message(), HasSubstr("inv-2"));
  EXPECT_THAT(failed->status.message(), HasSubstr("inv-1:split512:2"));
}

TEST_P(AgentTest, AnotherLifeAtTheAddressIsNotTheSamePeer) {
  start({}, {});
  OpenTransfer request;
  request.target = {"d0", Incarnation{21}, decode_->listen_address()};
  request.body = test_body(10, 1);
  request.kv_tokens = 10;
  request.blocks = ids(0, 1);
  request.deadline = TimePoint::max();
  prefill_->open(std::move(request));
  const auto failed = at_p_.take<TransferFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status.code(), StatusCode::kWorkerLost);
  EXPECT_THAT(failed->status.message(), HasSubstr("restarted"));
}

TEST_P(AgentTest, TheEndOfTheReceiverEndsItsTransfers) {
  start({}, {});
  const TransferId id = open(100, ids(0, 4));
  const auto reserve = at_d_.take<ReserveArrived>();
  ASSERT_TRUE(reserve);
  decode_->grant(reserve->reservation, ids(10, 4), 0);
  ASSERT_TRUE(at_p_.take<TransferGranted>());
  write_layers(id, 64);
  decode_.reset();
  const auto failed = at_p_.take<TransferFailed>({}, 3s);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status.code(), StatusCode::kWorkerLost);
  EXPECT_TRUE(at_p_.take<PeerLost>());
}

TEST_P(AgentTest, TheEndOfTheSenderReleasesItsTickets) {
  start({}, {});
  const TransferId id = open(100, ids(0, 4));
  const auto reserve = at_d_.take<ReserveArrived>();
  ASSERT_TRUE(reserve);
  decode_->grant(reserve->reservation, ids(10, 4), 0);
  ASSERT_TRUE(at_p_.take<TransferGranted>());
  write_layers(id, 64);
  prefill_.reset();
  ASSERT_TRUE(at_p_.take<TransferFailed>({}, 0s));
  const auto aborted = at_d_.take<TicketAborted>({}, 3s);
  ASSERT_TRUE(aborted);
  ASSERT_TRUE(at_d_.take<TicketReleased>({}, 3s));
}

// Descriptors of a transport may say "readable" again and again.
TEST_P(AgentTest, AnIdleLinkLetsTheProcessorSleep) {
  start({}, {});
  transfer(64);
  const auto used = [] {
    timespec spent{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return std::chrono::seconds(spent.tv_sec) + std::chrono::nanoseconds(spent.tv_nsec);
  };
  const auto before = used();
  EXPECT_FALSE(at_d_.take<PeerLost>({}, 600ms));
  EXPECT_LT(used() - before, 200ms) << "of 600 ms, two agents";
}

TEST_P(AgentTest, CarriesManyTransfersAtOnce) {
  TestShape shape;
  shape.blocks = 256;
  start(shape, shape);
  constexpr int kTransfers = 24;
  std::vector<TransferId> open_ids;
  for (int i = 0; i < kTransfers; ++i) {
    const int tokens = 40 + i * 9;
    const std::vector<BlockId> table = ids(i * 10, pools_p_->blocks_for(tokens));
    pools_p_->zero_values(table);
    pools_p_->write(table, static_cast<uint64_t>(i), 0, tokens);
    open_ids.push_back(open(tokens, table, static_cast<uint64_t>(i)));
  }
  std::map<uint64_t, int> index_of;
  for (int i = 0; i < kTransfers; ++i) {
    const auto reserve = at_d_.take<ReserveArrived>();
    ASSERT_TRUE(reserve);
    const int index = static_cast<int>(reserve->body.key.request.value.lo);
    index_of[reserve->reservation] = index;
    decode_->grant(reserve->reservation, ids(index * 10, pools_d_->blocks_for(reserve->kv_tokens)),
                   0);
    write_layers(open_ids[static_cast<size_t>(index)], reserve->kv_tokens);
    prefill_->commit(open_ids[static_cast<size_t>(index)], {{}}, {});
  }
  for (int i = 0; i < kTransfers; ++i) {
    const auto committed = at_d_.take<TransferCommitted>();
    ASSERT_TRUE(committed);
    const int index = index_of[committed->reservation];
    const int tokens = 40 + index * 9;
    EXPECT_EQ(pools_d_->mismatches(ids(index * 10, pools_d_->blocks_for(tokens)),
                                   static_cast<uint64_t>(index), 0, tokens),
              0u);
    ASSERT_TRUE(at_p_.take<TransferAcked>());
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, AgentTest,
                         testing::Values("inproc", "pool", "ucx-posix", "ucx-tcp"),
                         [](const testing::TestParamInfo<const char*>& param) {
                           std::string name = param.param;
                           std::erase(name, '-');
                           return name;
                         });

// What has nothing to do with the transport.
class AgentAloneTest : public AgentTest {};

TEST_P(AgentAloneTest, FailsWhenNobodyListens) {
  pools_p_.emplace(TestShape{});
  AgentOptions options_p = options(*pools_p_, wire::Role::kPrefill, "p0", 11);
  options_p.timeouts.handshake = 300ms;
  start_prefill(options_p);
  OpenTransfer request;
  request.target = {"d9", Incarnation{5}, "tcp://127.0.0.1:1"};
  request.body = test_body(10, 1);
  request.kv_tokens = 10;
  request.blocks = ids(0, 1);
  request.deadline = TimePoint::max();
  prefill_->open(std::move(request));
  const auto failed = at_p_.take<TransferFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status.code(), StatusCode::kWorkerLost);
}

TEST_P(AgentAloneTest, RefusesToStartOnATransportThatItDoesNotKnow) {
  pools_p_.emplace(TestShape{});
  AgentOptions bad = options(*pools_p_, wire::Role::kPrefill, "p0", 11);
  bad.transports = {"pigeon"};
  const auto agent = TransferAgent::create(bad, clock_, random_, metrics_p_, at_p_.sink());
  ASSERT_FALSE(agent.ok());
  EXPECT_THAT(agent.status().message(), HasSubstr("unknown transport 'pigeon'"));
}

TEST_P(AgentAloneTest, RefusesToStartOnAnAddressInUse) {
  start({}, {});
  AgentOptions second = options(*pools_d_, wire::Role::kDecode, "d1", 33);
  second.listen = decode_->listen_address();
  const auto agent = TransferAgent::create(second, clock_, random_, metrics_d_, at_d_.sink());
  ASSERT_FALSE(agent.ok());
  EXPECT_THAT(agent.status().message(), HasSubstr("already in use"));
}

// Where there is no file for the pools of a decode worker, links take the next transport.
TEST_P(AgentAloneTest, OffersWhatItCanAndLeavesTheRest) {
  pools_p_.emplace(TestShape{});
  pools_d_.emplace(TestShape{});
  AgentOptions options_d = options(*pools_d_, wire::Role::kDecode, "d0", 22);
  options_d.transports = {"pool"};
  EXPECT_EQ(
      TransferAgent::create(options_d, clock_, random_, metrics_d_, at_d_.sink()).status().code(),
      StatusCode::kUnsupported);
  options_d.transports = {"pool", "inproc"};
  start_decode(options_d);
  AgentOptions options_p = options(*pools_p_, wire::Role::kPrefill, "p0", 11);
  options_p.transports = {"pool", "inproc"};
  start_prefill(options_p);
  transfer(40);  // over inproc
}

INSTANTIATE_TEST_SUITE_P(Inproc, AgentAloneTest, testing::Values("inproc"));

}  // namespace
}  // namespace baton::kv_transfer
