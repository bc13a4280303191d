#include "kv_transfer/faulty_path.h"

#include <gtest/gtest.h>

#include <map>

#include "kv_transfer/transports/inproc/inproc_path.h"

namespace baton::kv_transfer {
namespace {

constexpr size_t kBytes = 64;

// Takes everything; counts ends.
class Counter final : public DataPathEvents {
 public:
  Result<Placement> announced(std::span<const std::byte> header, size_t bytes) override {
    EXPECT_FALSE(closed);
    EXPECT_EQ(header.size(), 8u);
    lengths.push_back(bytes);
    std::vector<std::byte>& to = arrived.emplace_back(bytes);
    return Placement{++next, {{to.data(), to.size()}}};
  }
  void malformed() override { FAIL(); }
  void placed(uint64_t, const Status&) override {}
  void sent(uint64_t cookie, const Status& status) override {
    EXPECT_FALSE(closed);
    ++ends[cookie];
    failed += status.ok() ? 0 : 1;
  }
  void peer_failed(PathPeer, const Status&) override {}
  void peer_closed(PathPeer) override { closed = true; }

  uint64_t next = 0;
  std::vector<size_t> lengths;
  std::deque<std::vector<std::byte>> arrived;
  std::map<uint64_t, int> ends;
  int failed = 0;
  bool closed = false;
};

class FaultyPathTest : public testing::Test {
 protected:
  FaultyPathTest()
      : plan_(FaultPlan::create("11:1", "p0", random_).value()),
        sender_(InprocPath::create(hub_).value(), *plan_, clock_),
        receiver_(InprocPath::create(hub_).value()),
        peer_(sender_.connect(receiver_->address()).value()),
        memory_(kBytes, std::byte{7}) {}

  void send(uint64_t cookie) {
    const std::array<std::byte, 8> header{};
    const std::array<IoSlice, 2> slices = {IoSlice{memory_.data(), kBytes / 2},
                                           IoSlice{memory_.data() + kBytes / 2, kBytes / 2}};
    sender_.send(peer_, header, slices, {}, cookie);
  }
  void settle() {
    for (int quiet = 0; quiet < 3;) {
      const int done = sender_.progress(at_sender_) + receiver_->progress(at_receiver_);
      quiet = done == 0 ? quiet + 1 : 0;
    }
  }

  FakeClock clock_;
  SeededRandom random_{1};
  InprocHub hub_;
  std::unique_ptr<FaultPlan> plan_;
  FaultyPath sender_;
  std::unique_ptr<InprocPath> receiver_;
  PathPeer peer_;
  std::vector<std::byte> memory_;
  Counter at_sender_, at_receiver_;
};

TEST_F(FaultyPathTest, EverySendEndsOnceWhateverHappensToIt) {
  constexpr uint64_t kCount = 20'000;
  for (uint64_t cookie = 1; cookie <= kCount; ++cookie) {
    send(cookie);
    settle();
    clock_.advance(1ms);
  }
  clock_.advance(10s);
  settle();
  EXPECT_EQ(at_sender_.ends.size(), kCount);
  for (const auto& [cookie, times] : at_sender_.ends) {
    EXPECT_EQ(times, 1) << cookie;
  }
  EXPECT_GT(at_sender_.failed, 0);
  size_t cut = 0, damaged = 0;
  for (const std::vector<std::byte>& bytes : at_receiver_.arrived) {
    cut += bytes.size() == kBytes / 2 ? 1 : 0;
    damaged += bytes != std::vector<std::byte>(bytes.size(), std::byte{7}) ? 1 : 0;
  }
  EXPECT_GT(cut, 0u);
  EXPECT_GT(damaged, 0u);
  EXPECT_GT(at_receiver_.arrived.size(), kCount) << "more were doubled than lost";
  EXPECT_FALSE(sender_.outstanding());
}

TEST_F(FaultyPathTest, ClosingEndsWhatIsHeldBackBeforeItIsTold) {
  constexpr uint64_t kCount = 2'000;  // of which some are held
  for (uint64_t cookie = 1; cookie <= kCount; ++cookie) {
    send(cookie);
  }
  sender_.close(peer_);
  settle();
  EXPECT_TRUE(at_sender_.closed);
  EXPECT_EQ(at_sender_.ends.size(), kCount);
}

}  // namespace
}  // namespace baton::kv_transfer
