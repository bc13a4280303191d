#include "common/base/random.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(RandomTest, SeededRepeatsItself) {
  SeededRandom a(7);
  SeededRandom b(7);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(a.next(), b.next());
  }
}

TEST(RandomTest, SystemGivesDistinctIds) {
  SystemRandom random;
  EXPECT_NE(random.next_u128(), random.next_u128());
  EXPECT_NE(random.next_nonzero(), 0u);
}

}  // namespace
}  // namespace baton
