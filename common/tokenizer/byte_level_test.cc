#include "common/tokenizer/byte_level.h"

#include <gtest/gtest.h>

namespace baton::tokenizer {
namespace {

TEST(ByteLevelTest, WritesSpaceAndNewlineAsGpt2Does) {
  EXPECT_EQ(byte_level_from_bytes(" a\n"), "ĠaĊ");
  EXPECT_EQ(byte_level_from_bytes("é"), "Ã©");
  EXPECT_EQ(byte_level_from_bytes(std::string_view("\0\x7F\xAD", 3)), "ĀġŃ");
  EXPECT_EQ(byte_level_from_bytes(""), "");
}

TEST(ByteLevelTest, EveryByteComesBack) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) {
    bytes.push_back(static_cast<char>(byte));
  }
  EXPECT_EQ(bytes_from_byte_level(byte_level_from_bytes(bytes)), bytes);
}

TEST(ByteLevelTest, RefusesCharactersOutsideTheAlphabet) {
  EXPECT_EQ(bytes_from_byte_level("a b"), std::nullopt);  // a space stands for nothing
  EXPECT_EQ(bytes_from_byte_level("一"), std::nullopt);
  EXPECT_EQ(bytes_from_byte_level("Ń"), "\xAD");           // the last of the alphabet
  EXPECT_EQ(bytes_from_byte_level("ń"), std::nullopt);     // the one behind it
  EXPECT_EQ(bytes_from_byte_level("\xC3"), std::nullopt);  // not UTF-8
}

}  // namespace
}  // namespace baton::tokenizer
