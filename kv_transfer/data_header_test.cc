#include "kv_transfer/data_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace baton::kv_transfer {
namespace {

DataHeader example() {
  DataHeader h;
  h.slot = 0x01020304;
  h.generation = 0xFFFFFFFF;
  h.seq = 7;
  h.dst_rank = 3;
  h.layer = 61;
  h.group = 1;
  h.head_lo = 2;
  h.head_hi = 8;
  h.token_lo = 32;
  h.token_hi = 4'096;
  h.digest = 0x1122334455667788;
  return h;
}

TEST(DataHeaderTest, ComesBackAsItWas) {
  const DataHeaderBytes bytes = encode_header(example());
  const Result<DataHeader> back = decode_header(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, example());
}

// Recorded: a release must read what the one before it wrote.
TEST(DataHeaderTest, HasAFixedForm) {
  const std::vector<int> expected = {
      0x42, 0x54, 0x4b, 0x54, 1, 0,  0x04, 0x03, 0x02, 0x01, 0xff, 0xff, 0xff, 0xff,
      7,    0,    0,    0,    3, 61, 0,    1,    2,    0,    8,    0,    32,   0,
      0,    0,    0,    0x10, 0, 0,  0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
  std::vector<int> bytes;
  for (const std::byte b : encode_header(example())) {
    bytes.push_back(static_cast<int>(b));
  }
  EXPECT_EQ(bytes, expected);
}

TEST(DataHeaderTest, NeedsNoAlignment) {
  std::vector<std::byte> shifted(kDataHeaderBytes + 1);
  const DataHeaderBytes bytes = encode_header(example());
  std::copy(bytes.begin(), bytes.end(), shifted.begin() + 1);
  EXPECT_EQ(*decode_header(std::span(shifted).subspan(1)), example());
}

TEST(DataHeaderTest, RefusesOtherSizesMagicAndVersion) {
  DataHeaderBytes bytes = encode_header(example());
  EXPECT_FALSE(decode_header(std::span(bytes).first(kDataHeaderBytes - 1)).ok());
  EXPECT_FALSE(decode_header({}).ok());
  bytes[4] = std::byte{2};
  EXPECT_THAT(decode_header(bytes).status().message(), testing::HasSubstr("version 2, expected 1"));
  bytes[0] = std::byte{0};
  EXPECT_THAT(decode_header(bytes).status().message(), testing::HasSubstr("magic"));
}

}  // namespace
}  // namespace baton::kv_transfer
