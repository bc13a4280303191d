#include "common/tokenizer/nfc.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "common/tokenizer/test_vocabulary.h"
#include "common/tokenizer/utf8.h"

namespace baton::tokenizer {
namespace {

std::string nfc(std::string_view text) { return to_nfc(text).value_or(std::string(text)); }

TEST(NfcTest, LeavesNormalTextAlone) {
  for (const char* text :
       {"", "plain", "é Việt 字 한글 🙂", "\xFF\xC3\xE4\xB8", "q\u0301", "\u0301"}) {
    EXPECT_FALSE(to_nfc(text).has_value()) << text;
  }
}

TEST(NfcTest, ComposesReordersAndReplaces) {
  EXPECT_EQ(nfc("e\u0301"), "\u00E9");
  EXPECT_EQ(nfc("e\u0301\u0323"), "\u1EB9\u0301");  // dot below belongs before the acute
  EXPECT_EQ(nfc("\u212B"), "\u00C5");               // the ångström sign is a letter
  EXPECT_EQ(nfc("\u1112\u1161\u11AB"), "\uD55C");   // Hangul
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093C");         // never composed
  EXPECT_EQ(nfc("a\u0327\u0301"), "\u00E1\u0327");  // not blocked
  EXPECT_EQ(nfc("a\u030A\u0301"), "\u01FB");
  EXPECT_EQ(nfc("\u0301"), "\u0301");
}

TEST(NfcTest, InvalidBytesStayAndSeparate) {
  EXPECT_EQ(nfc("e\xFF\u0301 e\u0301\xC3"), "e\xFF\u0301 \u00E9\xC3");
}

TEST(NfcTest, EqualsTheOracle) {
  const std::string file = read_test_data("nfc_cases.tsv");
  for (const std::string_view line : split_at(file, '\n')) {
    const auto fields = split_at(line, '\t');
    ASSERT_EQ(fields.size(), 2u);
    const std::string expected = unescape(fields[1]);
    EXPECT_EQ(nfc(unescape(fields[0])), expected) << fields[0];
    EXPECT_FALSE(to_nfc(expected).has_value());
  }
}

TEST(NfcTest, EveryCodePointEqualsTheOracleInSeveralContexts) {
  const std::string file = read_test_data("nfc_digests.txt");
  const auto lines = split_at(file, '\n');
  ASSERT_EQ(lines.size(), 0x110u);
  for (const std::string_view line : lines) {
    const auto fields = split_at(line, ' ');
    const auto block = std::strtoul(std::string(fields[0]).c_str(), nullptr, 16);
    uint64_t digest = 0xCBF29CE484222325;
    for (auto value = block; value < block + 0x1000; ++value) {
      if (value >= 0xD800 && value <= 0xDFFF) {
        continue;
      }
      std::string c;
      append_utf8(c, static_cast<char32_t>(value));
      for (const char byte : nfc(c + " e" + c + "\u0323" + c + "\u1161 \u0301\u0334" + c + c)) {
        digest = (digest ^ static_cast<uint8_t>(byte)) * 0x100000001B3;
      }
    }
    EXPECT_EQ(digest, std::strtoull(std::string(fields[1]).c_str(), nullptr, 16))
        << "block " << fields[0];
  }
}

TEST(NfcTest, LongRunsOfMarksAreNoAttack) {
  std::string text = "a";
  for (int i = 0; i < 250'000; ++i) {
    text += i % 2 == 0 ? "\u0301" : "\u0323";
  }
  const std::string normal = nfc(text);
  EXPECT_EQ(normal.substr(0, 7), "\u1EA1\u0323\u0323");
  EXPECT_EQ(normal.size(), text.size());
}

}  // namespace
}  // namespace baton::tokenizer
