#include "deploy/baton/backoff.h"

#include <gtest/gtest.h>

namespace baton::cli {
namespace {

TEST(BackoffTest, DoublesUpToTheLongest) {
  Backoff backoff({.first = 100ms, .longest = 350ms, .forgiven_after = 30s});
  EXPECT_EQ(backoff.next(0s), 100ms);
  EXPECT_EQ(backoff.next(1s), 200ms);
  EXPECT_EQ(backoff.next(29s), 350ms);
  EXPECT_EQ(backoff.next(0s), 350ms);
}

TEST(BackoffTest, ForgivesALongLife) {
  Backoff backoff({});
  EXPECT_EQ(backoff.next(0s), 100ms);
  EXPECT_EQ(backoff.next(0s), 200ms);
  EXPECT_EQ(backoff.next(30s), 100ms);
  EXPECT_EQ(backoff.next(0s), 200ms);
}

}  // namespace
}  // namespace baton::cli
