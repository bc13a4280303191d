#include "common/base/ids.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(IdsTest, HexRoundTrips) {
  const U128 v{0x0123456789abcdefull, 0xfedcba9876543210ull};
  EXPECT_EQ(to_hex(v), "0123456789abcdeffedcba9876543210");
  EXPECT_EQ(u128_from_hex(to_hex(v)), v);
}

TEST(IdsTest, RefusesWhatIsNotHex) {
  EXPECT_FALSE(u128_from_hex("").has_value());
  EXPECT_FALSE(u128_from_hex("0123456789abcdeffedcba987654321").has_value());
  EXPECT_FALSE(u128_from_hex("0123456789abcdeffedcba987654321g").has_value());
}

TEST(IdsTest, NewerRunsCompareGreater) {
  const RequestId id{U128{1, 2}};
  EXPECT_LT((RunKey{id, 1, 3}), (RunKey{id, 2, 0}));
  EXPECT_LT((RunKey{id, 2, 0}), (RunKey{id, 2, 1}));
}

TEST(IdsTest, PrintsRunKeys) {
  EXPECT_EQ(to_string(RunKey{RequestId{U128{0, 10}}, 2, 1}),
            "0000000000000000000000000000000a/2.1");
}

}  // namespace
}  // namespace baton
