// One contract, all data paths.

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "kv_transfer/transports/inproc/inproc_path.h"
#include "kv_transfer/transports/ucx/ucx_path.h"

namespace baton::kv_transfer {
namespace {

// Decides by the first byte of the header: 'y' takes, anything else refuses.
class Recorder final : public DataPathEvents {
 public:
  Result<Placement> announced(std::span<const std::byte> header, size_t bytes) override {
    ++announced_;
    headers_.emplace_back(reinterpret_cast<const char*>(header.data()), header.size());
    if (header.empty() || header.front() != std::byte{'y'}) {
      return invalid_argument("no");
    }
    Placement placement;
    placement.id = next_id_++;
    std::vector<std::byte>& target = targets_[placement.id];
    target.assign(bytes, std::byte{0xee});
    // In pieces of a size that no sender uses.
    for (size_t at = 0; at < bytes; at += kTargetSlice) {
      placement.slices.push_back({target.data() + at, std::min(kTargetSlice, bytes - at)});
    }
    return placement;
  }
  void malformed() override { ++malformed_; }
  void placed(uint64_t id, const Status& status) override { placed_[id] = status; }
  void sent(uint64_t cookie, const Status& status) override { sent_[cookie] = status; }
  void peer_failed(PathPeer peer, const Status&) override { failed_.push_back(peer); }
  void peer_closed(PathPeer peer) override { closed_.push_back(peer); }

  static constexpr size_t kTargetSlice = 3'000;
  int announced_ = 0;
  int malformed_ = 0;
  uint64_t next_id_ = 1;
  std::vector<std::string> headers_;
  std::map<uint64_t, std::vector<std::byte>> targets_;
  std::map<uint64_t, Status> placed_;
  std::map<uint64_t, Status> sent_;
  std::vector<PathPeer> failed_;
  std::vector<PathPeer> closed_;
};

class DataPathContractTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    sender_ = open();
    receiver_ = open();
    ASSERT_NE(sender_, nullptr);
    ASSERT_NE(receiver_, nullptr);
    Result<PathPeer> to_receiver = sender_->connect(receiver_->address());
    ASSERT_TRUE(to_receiver.ok()) << to_receiver.status().to_string();
    to_receiver_ = *to_receiver;
    Result<PathPeer> to_sender = receiver_->connect(sender_->address());
    ASSERT_TRUE(to_sender.ok()) << to_sender.status().to_string();
    to_sender_ = *to_sender;
    payload_.resize(1u << 20);
    for (size_t i = 0; i < payload_.size(); ++i) {
      payload_[i] = static_cast<std::byte>(i * 31 + (i >> 9));
    }
  }

  // Receives may still be posted: the paths end before the memory that they write.
  void TearDown() override {
    sender_.reset();
    receiver_.reset();
  }

  std::unique_ptr<DataPath> open() {
    if (std::string(GetParam()) == "inproc") {
      return std::move(InprocPath::create(hub_).value());
    }
    Result<std::unique_ptr<DataPath>> path = open_ucx_path({GetParam(), {"lo"}, 10s});
    EXPECT_TRUE(path.ok()) << path.status().to_string();
    return path.ok() ? std::move(*path) : nullptr;
  }

  template <typename Condition>
  bool run_until(Condition condition, bool receiver_too = true) {
    const TimePoint deadline = std::chrono::steady_clock::now() + 10s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) {
        return false;
      }
      sender_->progress(at_sender_);
      if (receiver_too && receiver_ != nullptr) {
        receiver_->progress(at_receiver_);
      }
    }
    return true;
  }

  void send(char first, size_t bytes, uint64_t cookie, size_t slice = 5'000) {
    const std::string header = std::string(1, first) + "-header-" + std::to_string(cookie);
    std::vector<IoSlice> slices;
    for (size_t at = 0; at < bytes; at += slice) {
      slices.push_back({payload_.data() + at, std::min(slice, bytes - at)});
    }
    sender_->send(to_receiver_, std::as_bytes(std::span(header)), slices, {}, cookie);
  }

  InprocHub hub_;
  std::unique_ptr<DataPath> sender_, receiver_;
  PathPeer to_receiver_ = 0, to_sender_ = 0;
  Recorder at_sender_, at_receiver_;
  std::vector<std::byte> payload_;
};

TEST_P(DataPathContractTest, PlacesWhatWasGatheredAndTellsBothSides) {
  send('y', payload_.size(), 7);
  ASSERT_TRUE(
      run_until([&] { return at_sender_.sent_.contains(7) && at_receiver_.placed_.contains(1); }));
  EXPECT_TRUE(at_sender_.sent_[7].ok());
  EXPECT_TRUE(at_receiver_.placed_[1].ok());
  EXPECT_EQ(at_receiver_.headers_.front(), "y-header-7");
  EXPECT_EQ(at_receiver_.targets_[1], payload_);
  EXPECT_FALSE(sender_->outstanding());
}

TEST_P(DataPathContractTest, EndsARefusedSendWithAnErrorAndMovesNothing) {
  send('n', 40'000, 1);
  ASSERT_TRUE(run_until([&] { return at_sender_.sent_.contains(1); }));
  EXPECT_FALSE(at_sender_.sent_[1].ok());
  EXPECT_NE(at_sender_.sent_[1].code(), StatusCode::kWorkerLost);
  EXPECT_TRUE(at_receiver_.placed_.empty());
  // The link is as good as before.
  send('y', 40'000, 2);
  ASSERT_TRUE(run_until([&] { return at_sender_.sent_.contains(2); }));
  EXPECT_TRUE(at_sender_.sent_[2].ok());
}

TEST_P(DataPathContractTest, AsksTheReceiverAboutTheSmallestPayloadToo) {
  send('n', 8, 1);
  ASSERT_TRUE(run_until([&] { return at_sender_.sent_.contains(1); }));
  EXPECT_FALSE(at_sender_.sent_[1].ok()) << "a success before the receiver has decided";
  EXPECT_EQ(at_receiver_.malformed_, 0);
}

TEST_P(DataPathContractTest, CarriesManyMessagesAtOnce) {
  constexpr uint64_t kCount = 200;
  for (uint64_t i = 1; i <= kCount; ++i) {
    send(i % 5 == 0 ? 'n' : 'y', 4'096 + i * 17, i);
  }
  EXPECT_TRUE(sender_->outstanding());
  ASSERT_TRUE(run_until([&] {
    return at_sender_.sent_.size() == kCount && at_receiver_.placed_.size() == kCount * 4 / 5;
  }));
  for (const auto& [cookie, status] : at_sender_.sent_) {
    EXPECT_EQ(status.ok(), cookie % 5 != 0) << cookie << " " << status.to_string();
  }
  for (const auto& [id, target] : at_receiver_.targets_) {
    EXPECT_EQ(std::memcmp(target.data(), payload_.data(), target.size()), 0) << id;
  }
}

TEST_P(DataPathContractTest, ClosingEndsWhatIsUnderWay) {
  for (uint64_t i = 1; i <= 16; ++i) {
    send('y', payload_.size(), i);
  }
  sender_->close(to_receiver_);
  // The receiver does not help.
  ASSERT_TRUE(run_until([&] { return !at_sender_.closed_.empty(); }, false));
  EXPECT_EQ(at_sender_.closed_.front(), to_receiver_);
  EXPECT_EQ(at_sender_.sent_.size(), 16u) << "every send ends before the peer is closed";
  // And nothing can be sent to it any more.
  send('y', 100, 99);
  ASSERT_TRUE(run_until([&] { return at_sender_.sent_.contains(99); }, false));
  EXPECT_EQ(at_sender_.sent_[99].code(), StatusCode::kWorkerLost);
}

TEST_P(DataPathContractTest, ReportsALaneOfItsOwnKind) {
  send('y', 100, 1);
  ASSERT_TRUE(run_until([&] { return at_sender_.sent_.contains(1); }));
  EXPECT_TRUE(sender_->check_lane(to_receiver_).ok());
  EXPECT_EQ(sender_->transport(), GetParam());
}

TEST_P(DataPathContractTest, RefusesNonsenseAsAnAddress) {
  EXPECT_FALSE(sender_->connect("").ok());
}

TEST_P(DataPathContractTest, SleepsUntilAMessageComes) {
  // Let connection traffic pass.
  send('y', 100, 1);
  ASSERT_TRUE(run_until([&] { return at_sender_.sent_.contains(1); }));
  while (!receiver_->arm()) {
    receiver_->progress(at_receiver_);
  }
  send('y', 100, 2);
  const TimePoint deadline = std::chrono::steady_clock::now() + 10s;
  while (!at_sender_.sent_.contains(2) && std::chrono::steady_clock::now() < deadline) {
    sender_->progress(at_sender_);
    if (receiver_->arm()) {
      continue;  // nothing for it
    }
    receiver_->progress(at_receiver_);
  }
  EXPECT_TRUE(at_sender_.sent_.contains(2));
}

INSTANTIATE_TEST_SUITE_P(Transports, DataPathContractTest,
                         testing::Values("inproc", "ucx-posix", "ucx-tcp"),
                         [](const testing::TestParamInfo<const char*>& param) {
                           std::string name = param.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace baton::kv_transfer
