#include "deploy/baton/terminal_text.h"

#include <gtest/gtest.h>

namespace baton::cli {
namespace {

TEST(TerminalTextTest, ATerminalObeysNothingThatAModelSays) {
  EXPECT_EQ(printable("plain\n\ttext, grüße, 漢字"), "plain\n\ttext, grüße, 漢字");
  EXPECT_EQ(printable("a\x1b[2Jb\x07"), "a\uFFFD[2Jb\uFFFD");
  EXPECT_EQ(printable("a\u009B2Jb"), "a\uFFFD2Jb");
  EXPECT_EQ(printable("\u00A0"), "\u00A0") << "a space of Latin-1 is no control character";
  EXPECT_EQ(printable("one\r\ntwo\rthree\x7f"), "one\ntwo\uFFFDthree\uFFFD");
  EXPECT_EQ(printable("cut \xC2"), "cut \xC2");
  EXPECT_EQ(printable(""), "");
}

TEST(TerminalTextTest, AnErrorIsOneLine) {
  EXPECT_EQ(one_line("first\nsecond\tthird\x1b"), "first second third\uFFFD");
}

TEST(TerminalTextTest, WhatIsNoTerminalIs24x80) {
  EXPECT_EQ(screen_size(-1).rows, 24);
  EXPECT_EQ(screen_size(-1).columns, 80);
}

TEST(TerminalTextTest, FitsAScreen) {
  EXPECT_EQ(fit_screen("a\n\nbb\n", {10, 10}), "a\n\nbb");
  EXPECT_EQ(fit_screen("abcdefgh\nx\n", {10, 3}), "abc\ndef\ngh\nx");
  EXPECT_EQ(fit_screen("abc\nx\n", {10, 3}), "abc\nx") << "as wide as the screen";
  EXPECT_EQ(fit_screen("1\n2\n3\n4\n", {3, 10}), "1\n2\n...");
  EXPECT_EQ(fit_screen("1\n2\n3\n", {3, 10}), "1\n2\n3");
  EXPECT_EQ(fit_screen("", {3, 10}), "");
  EXPECT_EQ(fit_screen("ab\n", {0, 0}), ".");
}

}  // namespace
}  // namespace baton::cli
