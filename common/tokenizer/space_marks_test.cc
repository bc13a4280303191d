#include "common/tokenizer/space_marks.h"

#include <gtest/gtest.h>

namespace baton::tokenizer {
namespace {

using After = EncodeOptions::After;
using Prefix = SpaceRules::Prefix;

std::string changed(std::string_view text, Prefix prefix, After after = After::kNothing) {
  SpaceRules rules;
  rules.prefix = prefix;
  return with_space_rules(text, rules, after);
}

TEST(SpaceMarksTest, MarksAreSpaces) {
  EXPECT_EQ(spaces_from_marks("▁a▁▁b"), " a  b");
  EXPECT_EQ(spaces_from_marks(""), "");
  EXPECT_EQ(changed("a▁b", Prefix::kNone), "a b");
}

TEST(SpaceMarksTest, ThePrefixFollowsItsRule) {
  EXPECT_EQ(changed("a", Prefix::kNone), "a");
  EXPECT_EQ(changed("a", Prefix::kEverySegment, After::kSpecialToken), " a");
  EXPECT_EQ(changed(" a", Prefix::kEverySegment), "  a");
  EXPECT_EQ(changed("", Prefix::kEverySegment), "");
  EXPECT_EQ(changed("a", Prefix::kUnlessSpace, After::kSpecialToken), " a");
  EXPECT_EQ(changed("▁a", Prefix::kUnlessSpace), " a");
  EXPECT_EQ(changed("a", Prefix::kEverySegment, After::kText), "a");
  EXPECT_EQ(changed("a", Prefix::kFirstUnlessSpace), " a");
  EXPECT_EQ(changed("a", Prefix::kFirstUnlessSpace, After::kSpecialToken), "a");
}

TEST(SpaceMarksTest, ExtraSpacesGoWhereTheRulesSaySo) {
  SpaceRules rules;
  rules.remove_extra = true;
  EXPECT_EQ(with_space_rules("  a   b\n  c ", rules, After::kNothing), " a b\n c");
  EXPECT_EQ(with_space_rules("   ", rules, After::kNothing), "");
}

}  // namespace
}  // namespace baton::tokenizer
