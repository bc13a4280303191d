#include "common/tokenizer/utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace baton::tokenizer {
namespace {

std::string replaced(std::string_view bytes) {
  Utf8Assembler assembler;
  std::string out;
  assembler.append(bytes, out);
  assembler.finish(out);
  return out;
}

TEST(Utf8Test, EveryScalarValueSurvives) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) {
      continue;
    }
    std::string text;
    append_utf8(text, c);
    const CodePoint decoded = decode_code_point(text, 0);
    ASSERT_EQ(decoded.value, c);
    ASSERT_EQ(decoded.length, text.size());
    ASSERT_EQ(replaced(text), text);
  }
}

TEST(Utf8Test, RefusesWhatIsNoScalarValue) {
  for (const char* bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
                          "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_EQ(decode_code_point(bad, 0).value, kInvalidCodePoint);
    EXPECT_EQ(decode_code_point(bad, 0).length, 1u);
    EXPECT_FALSE(is_valid_utf8(bad));
    EXPECT_TRUE(is_valid_utf8(replaced(bad)));
  }
  EXPECT_FALSE(is_valid_utf8("abc\xE4\xB8"));
  EXPECT_TRUE(is_valid_utf8("abc\xE4\xB8\x80"));
  EXPECT_TRUE(is_valid_utf8(""));
}

// The examples of the Unicode standard, 3.9, tables 3-8 to 3-11.
TEST(Utf8Test, ReplacesEachMaximalSubpartOnce) {
  const std::string r(kReplacementCharacter);
  EXPECT_EQ(replaced("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(replaced("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(replaced("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(replaced("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
}

TEST(Utf8Test, HoldsABegunCharacterAndReplacesItOnceAtTheEnd) {
  Utf8Assembler assembler;
  std::string out;
  assembler.append("a\xF0\x9F\x99", out);
  EXPECT_EQ(out, "a");
  EXPECT_EQ(assembler.held_bytes(), 3u);
  assembler.finish(out);
  EXPECT_EQ(out, "a\xEF\xBF\xBD");
  EXPECT_EQ(assembler.held_bytes(), 0u);
  assembler.append("\x82", out);  // nothing of the old character is left
  EXPECT_EQ(out, "a\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Utf8Test, CuttingTheInputNeverChangesTheOutput) {
  std::mt19937 random(5);
  constexpr std::string_view kBytes = "a\x80\xBF\xC3\xE0\xA0\xED\x9F\xF0\x90\xF4\x8F\xFF";
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 20, '\0');
    for (char& c : bytes) {
      c = kBytes[random() % kBytes.size()];
    }
    Utf8Assembler assembler;
    std::string out;
    for (size_t i = 0; i < bytes.size();) {
      const size_t take = 1 + random() % 4;
      assembler.append(std::string_view(bytes).substr(i, take), out);
      ASSERT_LE(assembler.held_bytes(), 3u);
      i += take;
    }
    assembler.finish(out);
    ASSERT_EQ(out, replaced(bytes));
    ASSERT_TRUE(is_valid_utf8(out));
    if (is_valid_utf8(bytes)) {
      ASSERT_EQ(out, bytes);
    }
  }
}

}  // namespace
}  // namespace baton::tokenizer
