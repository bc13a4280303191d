#include "common/tokenizer/special_tokens.h"

#include <gtest/gtest.h>

namespace baton::tokenizer {
namespace {

TEST(SpecialTokensTest, FindsTheLeftmostAndOfThoseTheLongest) {
  const SpecialTokenMatcher matcher({{"<a>", 1}, {"<a>b", 2}, {"a>b", 3}, {"<", 4}, {"zz", 5}});
  const auto match = matcher.find("x<a>bc", 0);
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->begin, 1u);
  EXPECT_EQ(match->end, 5u);
  EXPECT_EQ(match->id, 2);
  EXPECT_EQ(matcher.find("<a>", 0)->id, 1);
  EXPECT_EQ(matcher.find("<aa>b", 0)->id, 4);  // the longer ones break off
  EXPECT_EQ(matcher.find("<aa>b", 1)->id, 3);
  EXPECT_EQ(matcher.find("z<", 0)->begin, 1u);
}

TEST(SpecialTokensTest, FindsNothingWhereNothingIs) {
  const SpecialTokenMatcher matcher({{"<a>", 1}});
  EXPECT_FALSE(matcher.find("", 0).has_value());
  EXPECT_FALSE(matcher.find("<a", 0).has_value());
  EXPECT_FALSE(matcher.find("<a>", 1).has_value());
  EXPECT_FALSE(matcher.find("<a>", 3).has_value());
  EXPECT_FALSE(SpecialTokenMatcher().find("<a>", 0).has_value());
}

TEST(SpecialTokensTest, IgnoresEmptyTextsAndLaterDuplicates) {
  const SpecialTokenMatcher matcher({{"", 1}, {"\xFF", 2}, {"\xFF", 3}});
  EXPECT_EQ(matcher.find("a\xFF", 0)->id, 2);
}

}  // namespace
}  // namespace baton::tokenizer
