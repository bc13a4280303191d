#include "common/wire/send_faults.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace baton::wire {
namespace {

struct Sent {
  std::map<std::string, std::vector<int>> numbers;  // by peer, in the order in which they went out
  int unreadable = 0;
  bool late = false;
};

// Ten messages a second to each of two peers.
Sent send_many(FaultPoint point, int count) {
  SeededRandom random(1);
  const auto plan = FaultPlan::create("3:1", "p0", random).value();
  SendFaults faults{plan.get(), point, {}, {}};
  Sent sent;
  TimePoint now{};
  const auto take = [&] {
    for (const HeldMessage& message : take_due(faults, now)) {
      if (message.body.size() < 6) {
        ++sent.unreadable;
      } else {
        sent.numbers[message.peer].push_back(std::stoi(message.body));
      }
    }
  };
  for (int i = 0; i < count; ++i) {
    for (const char* peer : {"a", "b"}) {
      hold(faults, peer, std::to_string(100'000 + i), now);
    }
    sent.late = sent.late || !faults.held.empty();
    take();
    now += 100ms;
  }
  now += 10s;
  take();
  EXPECT_TRUE(faults.held.empty() && faults.overtaken.empty());
  return sent;
}

TEST(SendFaultsTest, MessagesOfRoutersComeLateOrTwiceButComeInOrder) {
  const Sent sent = send_many(FaultPoint::kRouterLink, 3'000);
  EXPECT_EQ(sent.unreadable, 0);
  for (const auto& [peer, numbers] : sent.numbers) {
    EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end())) << peer;
    EXPECT_EQ(std::set<int>(numbers.begin(), numbers.end()).size(), 3'000u) << peer;
    EXPECT_GT(numbers.size(), 3'000u) << peer << ": some twice";
  }
}

TEST(SendFaultsTest, MessagesOfPeersAreAlsoLostCutAndOvertaken) {
  const Sent sent = send_many(FaultPoint::kPeerLink, 3'000);
  EXPECT_GT(sent.unreadable, 0);
  for (const auto& [peer, numbers] : sent.numbers) {
    EXPECT_FALSE(std::is_sorted(numbers.begin(), numbers.end())) << peer;
    EXPECT_LT(std::set<int>(numbers.begin(), numbers.end()).size(), 3'000u) << peer;
    EXPECT_GT(numbers.size(), 2'900u) << peer;
  }
}

}  // namespace
}  // namespace baton::wire
