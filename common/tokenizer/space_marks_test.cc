#include "common/tokenizer/space_marks.h"

#include <gtest/gtest.h>

namespace baton::tokenizer {
namespace {

using Prefix = SpaceRules::Prefix;

std::string changed(std::string_view text, Prefix prefix, bool is_first = true) {
  SpaceRules rules;
  rules.prefix = prefix;
  return with_space_rules(text, rules, is_first);
}

TEST(SpaceMarksTest, MarksAreSpaces) {
  EXPECT_EQ(spaces_from_marks("▁a▁▁b"), " a  b");
  EXPECT_EQ(spaces_from_marks(""), "");
  EXPECT_EQ(changed("a▁b", Prefix::kNone), "a b");
}

TEST(SpaceMarksTest, ThePrefixFollowsItsRule) {
  EXPECT_EQ(changed("a", Prefix::kNone), "a");
  EXPECT_EQ(changed("a", Prefix::kEverySegment, false), " a");
  EXPECT_EQ(changed(" a", Prefix::kEverySegment), "  a");
  EXPECT_EQ(changed("", Prefix::kEverySegment), "");
  EXPECT_EQ(changed("a", Prefix::kUnlessSpace, false), " a");
  EXPECT_EQ(changed("▁a", Prefix::kUnlessSpace), " a");
  EXPECT_EQ(changed("a", Prefix::kFirstUnlessSpace), " a");
  EXPECT_EQ(changed("a", Prefix::kFirstUnlessSpace, false), "a");
}

TEST(SpaceMarksTest, ExtraSpacesGoWhereTheRulesSaySo) {
  SpaceRules rules;
  rules.remove_extra = true;
  EXPECT_EQ(with_space_rules("  a   b\n  c ", rules, true), " a b\n c");
  EXPECT_EQ(with_space_rules("   ", rules, true), "");
}

}  // namespace
}  // namespace baton::tokenizer
