#include "common/tokenizer/chat_template/text.h"

#include <gtest/gtest.h>

namespace baton::chat_template {
namespace {

TEST(TextTest, AcceptsUtf8AndNothingElse) {
  for (const char* good :
       {"", "a", "é", "\u0800", "\U0001F30D", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_valid_utf8(good)) << good;
  }
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "a\xff"}) {
    EXPECT_FALSE(is_valid_utf8(bad));
  }
}

TEST(TextTest, WalksCodePoints) {
  EXPECT_EQ(count_code_points("añ🌍"), 3u);
  EXPECT_EQ(to_code_points("añ🌍"), (std::vector<uint32_t>{0x61, 0xF1, 0x1F30D}));
  std::string out;
  for (const uint32_t c : {0x61u, 0xF1u, 0x800u, 0x1F30Du}) {
    append_code_point(c, out);
  }
  EXPECT_EQ(out, "añ\u0800🌍");
}

TEST(TextTest, MapsCaseByUnicode) {
  EXPECT_EQ(to_upper("ß ŉ é ǆ"), "SS ʼN É Ǆ");
  EXPECT_EQ(to_lower("ÀÉ İ"), "àé i̇");
  EXPECT_EQ(capitalize("ǆABC"), "ǅabc");
  EXPECT_EQ(capitalize(""), "");
}

TEST(TextTest, StripsAndSplitsAsPython) {
  EXPECT_EQ(strip("\u00a0 a\u3000", Side::kBoth, std::nullopt), "a");
  EXPECT_EQ(strip("xxa", Side::kRight, "x"), "xxa");
  EXPECT_EQ(split(" a  b ", std::nullopt, -1).size(), 2u);
  EXPECT_EQ(split(" a  b  c ", std::nullopt, 1).back(), "b  c ");
  EXPECT_EQ(rsplit(" a  b  c ", std::nullopt, 1).front(), " a  b");
  EXPECT_EQ(split("a,,b", ",", -1).size(), 3u);
  EXPECT_EQ(rsplit("a,b,c", ",", 1).front(), "a,b");
  EXPECT_EQ(split_lines("a\r\nb\n\nc\u2028", false).size(), 4u);
  EXPECT_EQ(split_lines("a\r\nb", true).front(), "a\r\n");
  EXPECT_EQ(replace("aé", "", "-", -1), "-a-é-");
  EXPECT_EQ(replace("aaa", "a", "b", 2), "bba");
}

TEST(TextTest, WritesFloatsAsPython) {
  const std::pair<double, const char*> cases[] = {
      {1.0, "1.0"},    {0.1, "0.1"},         {1e15, "1000000000000000.0"},
      {1e16, "1e+16"}, {1e-4, "0.0001"},     {1e-5, "1e-05"},
      {-0.0, "-0.0"},  {1.5e300, "1.5e+300"}};
  for (const auto& [value, text] : cases) {
    EXPECT_EQ(float_repr(value), text);
  }
}

TEST(TextTest, QuotesAsPythonAndAsJson) {
  EXPECT_EQ(string_repr("it's"), "\"it's\"");
  EXPECT_EQ(string_repr("it's \"x\""), "'it\\'s \"x\"'");
  EXPECT_EQ(string_repr("\x01\u00ad\u2028é"), "'\\x01\\xad\\u2028é'");
  EXPECT_EQ(string_json("a\"\\\n\x01é🌍", false), "\"a\\\"\\\\\\n\\u0001é🌍\"");
  EXPECT_EQ(string_json("é🌍", true), "\"\\u00e9\\ud83c\\udf0d\"");
  EXPECT_EQ(escape_html("<a b='\"'>&"), "&lt;a b=&#39;&#34;&#39;&gt;&amp;");
}

}  // namespace
}  // namespace baton::chat_template
