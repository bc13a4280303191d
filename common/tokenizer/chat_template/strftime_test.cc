#include "common/tokenizer/chat_template/strftime.h"

#include <gtest/gtest.h>

namespace baton::chat_template {
namespace {

using std::chrono::sys_seconds;

TEST(StrftimeTest, WritesDatesAsTheCLocale) {
  const sys_seconds time{std::chrono::seconds(1732871096)};  // 2024-11-29 09:04:56, a Friday
  EXPECT_EQ(*format_time("%d %b %Y", time), "29 Nov 2024");
  EXPECT_EQ(*format_time("%A %a %B %j %y-%m %H:%M:%S %I%p %% %F %T", time),
            "Friday Fri November 334 24-11 09:04:56 09AM % 2024-11-29 09:04:56");
  EXPECT_EQ(*format_time("%-d|%e|%-m", sys_seconds{std::chrono::days(31 + 4)}), "5| 5|2");
  EXPECT_EQ(*format_time("%I %p", sys_seconds{std::chrono::hours(12)}), "12 PM");
}

TEST(StrftimeTest, RefusesUnknownDirectives) {
  EXPECT_EQ(format_time("%Q", sys_seconds{}).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(format_time("%", sys_seconds{}).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(format_time("%-Q", sys_seconds{}).status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace baton::chat_template
