#include "common/base/bounded_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace baton {
namespace {

TimePoint soon() { return SteadyClock().now() + 10s; }

TEST(BoundedQueueTest, KeepsOrderAndRefusesWhenFull) {
  BoundedQueue<int> queue({.items = 2});
  EXPECT_EQ(queue.try_push(1), PushResult::kPushed);
  EXPECT_EQ(queue.try_push(2), PushResult::kPushed);
  EXPECT_EQ(queue.try_push(3), PushResult::kFull);
  EXPECT_EQ(queue.try_pop(), 1);
  EXPECT_EQ(queue.try_pop(), 2);
  EXPECT_EQ(queue.try_pop(), std::nullopt);
}

TEST(BoundedQueueTest, CountsBytes) {
  BoundedQueue<int> queue({.items = 10, .bytes = 100});
  EXPECT_EQ(queue.try_push(1, 500), PushResult::kPushed);  // alone, although too large
  EXPECT_EQ(queue.try_push(2, 1), PushResult::kFull);
  EXPECT_EQ(queue.try_pop(), 1);
  EXPECT_EQ(queue.try_push(2, 60), PushResult::kPushed);
  EXPECT_EQ(queue.try_push(3, 41), PushResult::kFull);
  EXPECT_EQ(queue.try_push(3, 40), PushResult::kPushed);
}

TEST(BoundedQueueTest, LeavesARefusedItemWithItsOwner) {
  BoundedQueue<std::unique_ptr<int>> queue({.items = 0});
  auto item = std::make_unique<int>(5);
  EXPECT_EQ(queue.try_push(std::move(item)), PushResult::kFull);
  ASSERT_NE(item, nullptr);
}

TEST(BoundedQueueTest, DrainsAfterClose) {
  BoundedQueue<int> queue({});
  EXPECT_EQ(queue.try_push(1), PushResult::kPushed);
  queue.close();
  EXPECT_EQ(queue.try_push(2), PushResult::kClosed);
  EXPECT_EQ(queue.pop_until(soon()), 1);
  EXPECT_EQ(queue.pop_until(soon()), std::nullopt);
}

TEST(BoundedQueueTest, GivesUpAtTheDeadline) {
  BoundedQueue<int> queue({});
  EXPECT_EQ(queue.pop_until(SteadyClock().now() + 1ms), std::nullopt);
}

TEST(BoundedQueueTest, WakesAWaitingConsumer) {
  int hooks = 0;
  BoundedQueue<int> queue({}, [&hooks] { ++hooks; });
  std::optional<int> got;
  std::thread consumer([&] { got = queue.pop_until(soon()); });
  EXPECT_EQ(queue.try_push(42), PushResult::kPushed);
  consumer.join();
  EXPECT_EQ(got, 42);
  EXPECT_EQ(hooks, 1);
}

}  // namespace
}  // namespace baton
