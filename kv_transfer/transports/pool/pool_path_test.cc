#include "kv_transfer/transports/pool/pool_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "kv_transfer/test_worker.h"

namespace baton::kv_transfer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Recorder final : public DataPathEvents {
 public:
  Result<Placement> announced(std::span<const std::byte>, size_t) override {
    ADD_FAILURE() << "a put is not announced";
    return internal_error("put");
  }
  void malformed() override { ADD_FAILURE(); }
  void placed(uint64_t, const Status&) override { ADD_FAILURE(); }
  void sent(uint64_t cookie, const Status& status) override {
    sent_cookies.push_back(cookie);
    last = status;
  }
  void peer_failed(PathPeer, const Status&) override { ADD_FAILURE(); }
  void peer_closed(PathPeer peer) override { closed.push_back(peer); }

  std::vector<uint64_t> sent_cookies;
  std::vector<PathPeer> closed;
  Status last;
};

TestShape shape_of_d() {
  TestShape shape;
  shape.block_tokens = 64;
  shape.ranks = {{0, 2}, {2, 3}};
  shape.shared = true;
  return shape;
}

class PoolPathTest : public testing::Test {
 protected:
  PoolPathTest() {
    sender_ = std::move(PoolPath::create(pools_p_.pointers(), false, random_).value());
    receiver_ = std::move(PoolPath::create(pools_d_.pointers(), true, random_).value());
  }
  void connect() {
    to_receiver_ = sender_->connect(receiver_->address()).value();
    to_sender_ = receiver_->connect(sender_->address()).value();
  }
  // Puts 100 bytes of `value` into block 3 of layer 1 on rank 1.
  void put(std::byte value) {
    std::vector<std::byte> source(100, value);
    const IoSlice from{source.data(), source.size()};
    const IoSlice to{target_.value_or(nullptr), 100};
    sender_->send(to_receiver_, {}, {&from, 1}, {&to, 1}, ++cookie_);
  }
  std::byte seen() { return pools_d_.pool(1).block(1, 3)[99]; }

  const TestPools pools_p_{TestShape{}};
  TestPools pools_d_{shape_of_d()};
  SeededRandom random_{5};
  std::unique_ptr<PoolPath> sender_, receiver_;
  PathPeer to_receiver_ = 0, to_sender_ = 0;
  std::optional<std::byte*> target_;
  uint64_t cookie_ = 0;
  Recorder at_sender_, at_receiver_;
};

TEST_F(PoolPathTest, WritesIntoThePoolsOfThePeer) {
  connect();
  const std::span<const kv_cache::KvPool> pools = sender_->pools_of(to_receiver_);
  ASSERT_EQ(pools.size(), 2u);
  EXPECT_EQ(pools[1].heads(), (kv_cache::HeadRange{2, 3}));
  EXPECT_EQ(pools[1].layout().block_tokens, 64);
  EXPECT_EQ(pools[1].group_blocks(), pools_d_.pool(1).group_blocks());
  EXPECT_NE(pools[1].layer_base(0), pools_d_.pool(1).layer_base(0)) << "a mapping of its own";
  target_ = pools[1].block(1, 3);
  put(std::byte{0x42});
  EXPECT_EQ(seen(), std::byte{0x42});
  EXPECT_TRUE(sender_->outstanding());
  sender_->progress(at_sender_);
  EXPECT_THAT(at_sender_.sent_cookies, ElementsAre(1));
  EXPECT_TRUE(at_sender_.last.ok());
  EXPECT_EQ(receiver_->progress(at_receiver_), 0) << "it has no part in it";
  EXPECT_THAT(receiver_->pools_of(to_sender_), IsEmpty());
}

TEST_F(PoolPathTest, AClosedPeerIsWrittenNoMore) {
  connect();
  target_ = sender_->pools_of(to_receiver_)[1].block(1, 3);
  put(std::byte{1});
  sender_->close(to_receiver_);
  EXPECT_THAT(sender_->pools_of(to_receiver_), IsEmpty());
  put(std::byte{2});  // the address is not mapped any more: to copy would be a fault
  sender_->progress(at_sender_);
  EXPECT_THAT(at_sender_.sent_cookies, ElementsAre(1, 2));
  EXPECT_EQ(at_sender_.last.code(), StatusCode::kWorkerLost);
  EXPECT_EQ(seen(), std::byte{1});
  EXPECT_THAT(at_sender_.closed, ElementsAre(to_receiver_));
}

TEST_F(PoolPathTest, AReceiverKnowsWhetherThePeerCanStillWrite) {
  connect();
  receiver_->close(to_sender_);
  receiver_->close(to_sender_);
  receiver_->progress(at_receiver_);
  EXPECT_THAT(at_receiver_.closed, IsEmpty()) << "it has our pools mapped";
  sender_->close(to_receiver_);
  receiver_->progress(at_receiver_);
  EXPECT_THAT(at_receiver_.closed, ElementsAre(to_sender_));
}

TEST_F(PoolPathTest, TheEndOfTheSenderIsTheEndOfItsWrites) {
  connect();
  receiver_->close(to_sender_);
  sender_.reset();
  receiver_->progress(at_receiver_);
  EXPECT_THAT(at_receiver_.closed, ElementsAre(to_sender_));
}

// A sender that was stopped for a while comes back: what it had mapped before is gone, though it
// has the pools mapped again.
TEST_F(PoolPathTest, ToConnectAnewEndsTheOldWrites) {
  connect();
  receiver_->close(to_sender_);
  sender_->close(to_receiver_);
  const PathPeer again = receiver_->connect(sender_->address()).value();
  to_receiver_ = sender_->connect(receiver_->address()).value();
  receiver_->progress(at_receiver_);
  EXPECT_THAT(at_receiver_.closed, ElementsAre(to_sender_));
  receiver_->close(again);
  receiver_->progress(at_receiver_);
  EXPECT_THAT(at_receiver_.closed, ElementsAre(to_sender_)) << "the new mapping is there";
}

TEST_F(PoolPathTest, OtherSendersDoNotHoldItBack) {
  connect();
  const auto other = std::move(PoolPath::create(pools_p_.pointers(), false, random_).value());
  const PathPeer to_other = receiver_->connect(other->address()).value();
  ASSERT_TRUE(other->connect(receiver_->address()).ok());
  receiver_->close(to_sender_);
  receiver_->close(to_other);
  sender_->close(to_receiver_);
  receiver_->progress(at_receiver_);
  EXPECT_THAT(at_receiver_.closed, ElementsAre(to_sender_));
}

TEST_F(PoolPathTest, OnlyPoolsInFilesCanBeGiven) {
  const auto path = PoolPath::create(pools_p_.pointers(), true, random_);
  EXPECT_EQ(path.status().code(), StatusCode::kUnsupported);
}

TEST_F(PoolPathTest, APoolThatIsGoneIsNotMapped) {
  std::string address;
  {
    const TestPools gone(shape_of_d());
    const auto path = std::move(PoolPath::create(gone.pointers(), true, random_).value());
    address = path->address();
  }
  EXPECT_EQ(sender_->connect(address).status().code(), StatusCode::kUnavailable);
}

TEST_F(PoolPathTest, TwoOfOneRoleDoNotMeet) {
  EXPECT_EQ(sender_->connect(sender_->address()).status().code(), StatusCode::kIncompatible);
  EXPECT_EQ(receiver_->connect(receiver_->address()).status().code(), StatusCode::kIncompatible);
}

TEST_F(PoolPathTest, SurvivesDamagedAddresses) {
  const std::string good = receiver_->address();
  EXPECT_FALSE(sender_->connect("").ok());
  for (size_t cut = 0; cut < good.size(); ++cut) {
    EXPECT_FALSE(sender_->connect(good.substr(0, cut)).ok()) << cut;
  }
  EXPECT_FALSE(sender_->connect(good + "x").ok());
  for (int round = 0; round < 2'000; ++round) {
    std::string bad = good;
    for (uint64_t flips = 1 + random_.next() % 3; flips > 0; --flips) {
      bad[random_.next() % bad.size()] = static_cast<char>(random_.next());
    }
    const Result<PathPeer> peer = sender_->connect(bad);
    if (peer.ok()) {
      // Another shape perhaps, but never beyond the file.
      EXPECT_LE(sender_->pools_of(*peer)[0].bytes(), size_t{2} << 20);
      sender_->close(*peer);
    }
  }
}

}  // namespace
}  // namespace baton::kv_transfer
