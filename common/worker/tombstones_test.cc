#include "common/worker/tombstones.h"

#include <gtest/gtest.h>

namespace baton::worker {
namespace {

RequestId request(uint64_t n) { return RequestId{U128{1, n}}; }
RunKey key(uint64_t n, uint16_t attempt, uint8_t leg = 0) { return {request(n), attempt, leg}; }

class TombstonesTest : public testing::Test {
 protected:
  FakeClock clock_;
};

TEST_F(TombstonesTest, RefusesTheBuriedAttemptAndOlderOnesOnAnyLeg) {
  Tombstones tombstones(10s);
  tombstones.bury(request(1), 2, clock_.now());
  EXPECT_TRUE(tombstones.refuses(key(1, 0)));
  EXPECT_TRUE(tombstones.refuses(key(1, 2, 7)));
  EXPECT_FALSE(tombstones.refuses(key(1, 3)));
  EXPECT_FALSE(tombstones.refuses(key(2, 0)));
}

TEST_F(TombstonesTest, AnOlderCancelDoesNotLowerTheMark) {
  Tombstones tombstones(10s);
  tombstones.bury(request(1), 5, clock_.now());
  tombstones.bury(request(1), 2, clock_.now());
  EXPECT_TRUE(tombstones.refuses(key(1, 5)));
}

TEST_F(TombstonesTest, ForgetsAfterItsTimeCountedFromTheLastBurial) {
  Tombstones tombstones(10s);
  tombstones.bury(request(1), 0, clock_.now());
  clock_.advance(6s);
  tombstones.bury(request(1), 0, clock_.now());
  clock_.advance(6s);
  tombstones.sweep(clock_.now());
  EXPECT_TRUE(tombstones.refuses(key(1, 0))) << "buried again four seconds ago";
  clock_.advance(4s);
  tombstones.sweep(clock_.now());
  EXPECT_FALSE(tombstones.refuses(key(1, 0)));
  EXPECT_EQ(tombstones.size(), 0u);
}

TEST_F(TombstonesTest, IsBoundedAndLosesTheOldestFirst) {
  Tombstones tombstones(10s, 3);
  for (uint64_t n = 1; n <= 4; ++n) {
    tombstones.bury(request(n), 0, clock_.now());
    clock_.advance(1ms);
  }
  EXPECT_EQ(tombstones.size(), 3u);
  EXPECT_FALSE(tombstones.refuses(key(1, 0)));
  EXPECT_TRUE(tombstones.refuses(key(4, 0)));
}

TEST_F(TombstonesTest, OneRequestBuriedOverAndOverTakesNoMoreRoom) {
  Tombstones tombstones(10s, 3);
  tombstones.bury(request(1), 0, clock_.now());
  clock_.advance(1ms);
  for (int i = 0; i < 100; ++i) {
    tombstones.bury(request(2), 0, clock_.now());
    clock_.advance(1ms);
  }
  EXPECT_TRUE(tombstones.refuses(key(2, 0)));
  EXPECT_EQ(tombstones.size(), 1u) << "the first was the oldest";
}

}  // namespace
}  // namespace baton::worker
