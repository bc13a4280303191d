#include "deploy/baton/terminal_editor.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

namespace baton::cli {
namespace {

// A child process whose terminal is ours: it reads messages and prints what it got.
class TerminalEditorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    child_ = forkpty(&terminal_, nullptr, nullptr, nullptr);
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      read_until_the_end();
    }
    wait_for("> ");
  }
  void TearDown() override {
    if (!left_) {
      type("\x04");
    }
    int status = -1;
    waitpid(child_, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status << "\n" << shown_;
    close(terminal_);
  }

  [[noreturn]] static void read_until_the_end() {
    setenv("TERM", "xterm", 1);
    TerminalSignals signals;
    TerminalEditor editor(signals);
    while (true) {
      const InputLine message = read_message(editor, "> ", "| ");
      if (message.end == LineEnd::kEnd) {
        std::printf("(end)\n");
        std::fflush(stdout);
        _exit(0);
      }
      std::string text = message.text;
      for (size_t at = 0; (at = text.find('\n')) != std::string::npos;) {
        text[at] = '/';
      }
      std::printf(message.end == LineEnd::kLine ? "(%s)\n" : "(interrupted %s)\n", text.c_str());
      std::fflush(stdout);
    }
  }

  // Once the terminal gives keys and not lines: libedit shows its prompt a moment before.
  void type(std::string_view text) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    termios mode{};
    do {
      ASSERT_EQ(tcgetattr(terminal_, &mode), 0);
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << shown_;
      std::this_thread::yield();
    } while ((mode.c_lflag & ICANON) != 0);
    ASSERT_EQ(write(terminal_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  // Until the terminal has shown `text` since the last time.
  void wait_for(std::string_view text) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    size_t at = 0;
    while ((at = shown_.find(text, seen_)) == std::string::npos) {
      pollfd p{terminal_, POLLIN, 0};
      char buffer[4096];
      const ssize_t n = poll(&p, 1, 200) > 0 ? read(terminal_, buffer, sizeof(buffer)) : 0;
      shown_.append(buffer, static_cast<size_t>(n > 0 ? n : 0));
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << text << " never came:\n" << shown_;
    }
    seen_ = at + text.size();
  }

  int terminal_ = -1;
  pid_t child_ = -1;
  std::string shown_;
  size_t seen_ = 0;
  bool left_ = false;
};

TEST_F(TerminalEditorTest, EditsALine) {
  type("helo\x1b[Dl\x01>\r");  // left, insert, to the beginning
  wait_for("(>hello)");
  type("\x1b[A\x7f!\r");  // the line before, and its last letter taken away
  wait_for("(>hell!)");
}

TEST_F(TerminalEditorTest, TakesUtf8AndLeavesOutWhatIsNone) {
  type("gr\xC3\xBC\xC3\x9F\x65 \xE6\xBC\xA2\xFF!\r");
  wait_for("(gr\xC3\xBC\xC3\x9F\x65 \xE6\xBC\xA2!)");
}

TEST_F(TerminalEditorTest, ABackslashGoesOn) {
  type("one\\\r");
  wait_for("| ");
  type("two\r");
  wait_for("(one/two)");
}

TEST_F(TerminalEditorTest, PastedTextKeepsItsLines) {
  type("\x1b[200~int main() {\r  return 0;\r}\x1b[201~");
  wait_for("}");
  type("\r");
  wait_for("(int main() {/  return 0;/})");
}

TEST_F(TerminalEditorTest, CtrlCDropsTheLine) {
  type("never mind\x03");
  wait_for("(interrupted )");
  wait_for("> ");
  type("this\r");
  wait_for("(this)");
}

TEST_F(TerminalEditorTest, CtrlDLeaves) {
  type("\x04");
  wait_for("(end)");
  left_ = true;
}

}  // namespace
}  // namespace baton::cli
