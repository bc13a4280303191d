#include "kv_transfer/digest.h"

#include <gtest/gtest.h>

#include <vector>

namespace baton::kv_transfer {
namespace {

TEST(DigestTest, DoesNotDependOnTheSlices) {
  std::vector<std::byte> bytes(10'000);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i * 7);
  }
  const IoSlice whole{bytes.data(), bytes.size()};
  const std::vector<IoSlice> parts = {
      {bytes.data(), 1}, {bytes.data() + 1, 4'000}, {bytes.data() + 4'001, 5'999}};
  EXPECT_EQ(payload_digest({&whole, 1}), payload_digest(parts));
  EXPECT_EQ(total_bytes(parts), bytes.size());
  bytes[9'999] ^= std::byte{1};
  EXPECT_NE(payload_digest({&whole, 1}), payload_digest({parts.data(), 2}));
}

TEST(DigestTest, TheCommitsDigestDoesNotDependOnTheOrderOfArrival) {
  CommitDigest a, b;
  const CommitDigest::Record first{0, 0, 0, 2, 11}, second{0, 2, 0, 1, 12}, third{1, 0, 1, 3, 13};
  for (const auto& record : {first, second, third}) {
    a.add(record);
  }
  for (const auto& record : {third, first, second}) {
    b.add(record);
  }
  EXPECT_EQ(a.finish(), b.finish());
  EXPECT_EQ(a.finish(), a.finish());
  b.add({1, 3, 1, 1, 14});
  EXPECT_NE(a.finish(), b.finish());
}

}  // namespace
}  // namespace baton::kv_transfer
