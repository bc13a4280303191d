// DATA that the receiver must refuse before it places a byte.

#include "kv_transfer/receiver.h"

#include <gtest/gtest.h>

#include "kv_transfer/core_fixture.h"

namespace baton::kv_transfer {
namespace {

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
    attacker_->send(peer_, header, {&slice, 1}, {}, ++cookie_);
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
}  // namespace
}  // namespace baton::kv_transfer
