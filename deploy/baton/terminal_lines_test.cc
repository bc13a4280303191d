#include "deploy/baton/terminal_lines.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string_view>

namespace baton::cli {
namespace {

class PlainLinesTest : public ::testing::Test {
 protected:
  PlainLinesTest() { EXPECT_EQ(pipe(ends_), 0); }
  ~PlainLinesTest() override {
    finish();
    close(ends_[0]);
  }
  void type(std::string_view text) {
    EXPECT_EQ(write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void finish() {
    if (ends_[1] >= 0) {
      close(std::exchange(ends_[1], -1));
    }
  }
  PlainLines lines() { return {ends_[0], signals_}; }

  TerminalSignals signals_;
  int ends_[2];
};

TEST_F(PlainLinesTest, ReadsLinesToTheEnd) {
  type("one\r\n\nthree, without an end");
  finish();
  PlainLines lines = this->lines();
  EXPECT_EQ(lines.read("> ").text, "one");
  const InputLine empty = lines.read("> ");
  EXPECT_EQ(empty.end, LineEnd::kLine);
  EXPECT_EQ(empty.text, "");
  EXPECT_EQ(lines.read("> ").text, "three, without an end");
  EXPECT_EQ(lines.read("> ").end, LineEnd::kEnd);
  EXPECT_EQ(lines.read("> ").end, LineEnd::kEnd);
}

TEST_F(PlainLinesTest, ASignalEndsTheWait) {
  PlainLines lines = this->lines();
  raise(SIGINT);
  const InputLine line = lines.read("> ");
  EXPECT_EQ(line.end, LineEnd::kInterrupted);
  EXPECT_EQ(line.signal_number, SIGINT);
  type("later\n");
  EXPECT_EQ(lines.read("> ").text, "later");
}

TEST_F(PlainLinesTest, AMessageGoesOnBehindABackslash) {
  type("first\\\nsecond\\\n\nnext\nlast\\\n");
  finish();
  PlainLines lines = this->lines();
  EXPECT_EQ(read_message(lines, "> ", "| ").text, "first\nsecond\n");
  EXPECT_EQ(read_message(lines, "> ", "| ").text, "next");
  const InputLine last = read_message(lines, "> ", "| ");
  EXPECT_EQ(last.end, LineEnd::kLine);
  EXPECT_EQ(last.text, "last");
  EXPECT_EQ(read_message(lines, "> ", "| ").end, LineEnd::kEnd);
}

TEST_F(PlainLinesTest, AnInterruptedMessageIsGone) {
  type("first\\\n");
  PlainLines lines = this->lines();
  // The first line is there; the signal comes while the second is waited for.
  struct RaisesAfterOne final : LineReader {
    explicit RaisesAfterOne(LineReader& inner) : inner_(inner) {}
    InputLine read(const std::string& prompt) override {
      const InputLine line = inner_.read(prompt);
      raise(SIGINT);
      return line;
    }
    LineReader& inner_;
  } raises(lines);
  EXPECT_EQ(read_message(raises, "> ", "| ").end, LineEnd::kInterrupted);
}

}  // namespace
}  // namespace baton::cli
