// Hand-over of models that have layers with a window: of these only the last blocks travel.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "kv_transfer/core_fixture.h"

namespace baton::kv_transfer {
namespace {

using testing::HasSubstr;

constexpr int kTokens = 200;  // 7 blocks; the token at 200 sees 161..200, in blocks 5 and 6
constexpr int kFirstSeen = 160;
constexpr size_t kPieceBytes = 3 * 32 * 2 * 16 * 2;

// Layer 1 sees everything, layers 0 and 2 the last 40 tokens.
TestShape shape_with_windows() {
  TestShape shape;
  shape.layer_groups = {1, 0, 1};
  shape.window = 40;
  shape.window_blocks = 64;
  return shape;
}

class WindowsTest : public CoreTest {
 protected:
  void begin() { start(shape_with_windows(), shape_with_windows()); }
  // Everything is written and committed; bytes that travelled.
  uint64_t finish(TransferId id) {
    write_all(id, kTokens);
    core_p_->commit(id, {{}}, {});
    settle();
    EXPECT_TRUE(happened<TransferCommitted>(at_d_));
    const auto acked = at_p_.take<TransferAcked>({}, 0s);
    return acked ? acked->bytes : 0;
  }
  bool untouched(int layer, BlockId id) {
    const kv_cache::KvPool& pool = pools_d_->pool(0);
    const std::vector<std::byte> before(pool.block_bytes(), std::byte{0xFF});
    return std::memcmp(pool.block(layer, id), before.data(), before.size()) == 0;
  }
};

TEST_F(WindowsTest, OnlyWhatTheNextTokenSeesTravels) {
  begin();
  TransferId id = 0;
  granted(kTokens, &id);
  EXPECT_EQ(finish(id), (7 + 2 * 2) * kPieceBytes) << "7 blocks of a full layer, 2 of a window's";
  EXPECT_EQ(pools_d_->mismatches(table_d(kTokens), 1, 0, kTokens), 0u);
  EXPECT_EQ(pools_d_->mismatches(table_d(kTokens), 1, kFirstSeen, kTokens, 1), 0u);
  for (const int layer : {0, 2}) {
    EXPECT_TRUE(untouched(layer, table_d(kTokens)[4]));
    EXPECT_FALSE(untouched(layer, table_d(kTokens)[5]));
  }
}

TEST_F(WindowsTest, EachGroupSaysWhatIsThere) {
  begin();
  const TransferId id = open(kTokens);
  const auto reserve = at_d_.take<ReserveArrived>({}, 0s);
  ASSERT_TRUE(reserve);
  core_d_->grant(reserve->reservation, table_d(kTokens), 64, {table_d(kTokens), 192});
  settle();
  EXPECT_EQ(finish(id), (5 + 2 * 1) * kPieceBytes);
  EXPECT_EQ(pools_d_->mismatches(table_d(kTokens), 1, 64, kTokens), 0u);
  EXPECT_EQ(pools_d_->mismatches(table_d(kTokens), 1, 192, kTokens, 1), 0u);
  EXPECT_TRUE(untouched(0, table_d(kTokens)[5]));
  EXPECT_TRUE(untouched(1, table_d(kTokens)[1]));
}

TEST_F(WindowsTest, TheTableOfAWindowGrowsWhileThePromptIsComputed) {
  begin();
  pools_p_->write({0, 1, 2, 3, 4, 5, 6}, 1, 0, kTokens);
  pools_p_->write({0, 0, 0, 0, 0, 7, 3}, 1, kFirstSeen, kTokens, 1);
  OpenTransfer request;
  request.target = {"d0", Incarnation{22}, "net"};
  request.body = test_body(kTokens, 1);
  request.kv_tokens = kTokens;
  request.blocks = {0, 1, 2, 3, 4, 5, 6};
  request.window_blocks = {kNoBlock, 9};
  request.deadline = TimePoint::max();
  core_p_->open(1, std::move(request));
  settle();
  const auto reserve = at_d_.take<ReserveArrived>({}, 0s);
  ASSERT_TRUE(reserve);
  core_d_->grant(reserve->reservation, table_d(kTokens), 0, {table_d(kTokens), kFirstSeen});
  settle();
  core_p_->add_blocks(1, 1, {9, 9, 9});
  write_all(1, 160);
  settle();
  core_p_->add_blocks(1, 1, {7});
  write_all(1, 192);
  settle();
  EXPECT_EQ(pools_d_->mismatches(table_d(kTokens), 1, kFirstSeen, 192, 1), 0u) << "at once";
  core_p_->add_blocks(1, 1, {3});
  EXPECT_EQ(finish(1), (7 + 2 * 2) * kPieceBytes);
  EXPECT_EQ(pools_d_->mismatches(table_d(kTokens), 1, kFirstSeen, kTokens, 1), 0u);
}

TEST_F(WindowsTest, AGrantThatAsksForMoreThanTheWindowEndsTheTransfer) {
  begin();
  const TransferId id = open(kTokens);
  wire::Grant grant;
  grant.reserve_id = id;
  grant.slot = grant.generation = 1;
  grant.window_have_tokens = kFirstSeen - 32;
  core_p_->on_message(1, wire::Message(grant));
  settle();
  const auto failed = at_p_.take<TransferFailed>({}, 0s);
  ASSERT_TRUE(failed);
  EXPECT_THAT(failed->status.message(), HasSubstr("impossible have_tokens"));
}

TEST_F(WindowsTest, DataBeforeTheWindowAndOfTheWrongGroupIsRefused) {
  begin();
  const uint64_t reservation = granted(kTokens);
  std::unique_ptr<DataPath> attacker = InprocPath::create(hub_).value();
  const PathPeer peer = attacker->connect(path_d_->address()).value();
  std::vector<std::byte> bytes(kPieceBytes, std::byte{0xab});
  const IoSlice slice{bytes.data(), bytes.size()};
  wire::Reserve again;
  again.reserve_id = 1;
  again.kv_tokens = kTokens;
  again.body = test_body(kTokens, 1);
  again.key = again.body.key;
  core_d_->on_message(1, wire::Message(again));
  const auto grant = std::get<wire::Grant>(net_.d.sent.back().second);
  EXPECT_EQ(grant.have_tokens, 0u);
  EXPECT_EQ(grant.window_have_tokens, static_cast<uint32_t>(kFirstSeen));
  DataHeader header;
  header.slot = grant.slot;
  header.generation = grant.generation;
  header.head_hi = 3;
  header.layer = 0;
  header.group = 1;
  header.token_lo = kFirstSeen - 32;
  header.token_hi = kFirstSeen;
  attacker->send(peer, encode_header(header), {&slice, 1}, {}, 1);
  settle();
  header.group = 0;
  header.token_lo = kFirstSeen;
  header.token_hi = kFirstSeen + 32;
  attacker->send(peer, encode_header(header), {&slice, 1}, {}, 2);
  header.layer = 1;
  header.group = 1;
  attacker->send(peer, encode_header(header), {&slice, 1}, {}, 3);
  settle();
  EXPECT_EQ(dropped(DropReason::kBadRange), 3);
  for (size_t place = 4; place < 7; ++place) {
    EXPECT_TRUE(untouched(0, table_d(kTokens)[place]));
  }
  core_d_->abort_reservation(reservation, "done");
  settle();
}

TEST_F(WindowsTest, PeersOfAnotherGeometryAreRefused) {
  const TestPools pools(shape_with_windows());
  DataPath* paths[] = {path_p_.get()};
  const HostIdentity host = this_process();
  const wire::Hello p =
      make_hello(test_options(pools, wire::Role::kPrefill, "p0", 11), host, paths);
  const wire::Hello good =
      make_hello(test_options(pools, wire::Role::kDecode, "d0", 22), host, paths);
  ASSERT_TRUE(agree(p, good).ok()) << agree(p, good).status().to_string();
  const auto refusal = [&](void (*change)(wire::Hello&)) {
    wire::Hello d = good;
    change(d);
    return agree(p, d).status().message();
  };
  EXPECT_THAT(refusal([](wire::Hello& d) { d.groups[1].window = 41; }),
              HasSubstr("window 40} layers 101, decode worker has"));
  EXPECT_THAT(refusal([](wire::Hello& d) { d.layer_groups = {0, 1, 1}; }),
              HasSubstr("cache groups differ"));
  EXPECT_THAT(refusal([](wire::Hello& d) { d.groups.pop_back(); }),
              HasSubstr("cache groups differ"));
  EXPECT_THAT(refusal([](wire::Hello& d) { d.block_tokens = 64; }),
              HasSubstr("a model with sliding windows needs equal ones"));
  EXPECT_THAT(refusal([](wire::Hello& d) { d.groups.push_back(d.groups[1]); }),
              HasSubstr("3 cache groups"));
  wire::Hello odd = good;
  odd.layer_groups = {0, 0, 1};
  wire::Hello odd_p = p;
  odd_p.layer_groups = odd.layer_groups;
  EXPECT_THAT(agree(odd_p, odd).status().message(), HasSubstr("group 0 has 2 layers, expected 1"));
}

}  // namespace
}  // namespace baton::kv_transfer
