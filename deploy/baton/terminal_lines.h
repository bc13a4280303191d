#pragma once

// Where a conversation gets its lines from.

#include <string>

#include "deploy/baton/terminal_signals.h"

namespace baton::cli {

enum class LineEnd {
  kLine,         // a line was given
  kInterrupted,  // Ctrl-C, or SIGTERM: TerminalSignals holds it no more, `signal_number` tells
  kEnd,          // Ctrl-D, or the end of the pipe
};
struct InputLine {
  LineEnd end = LineEnd::kEnd;
  std::string text;  // without its line feed
  int signal_number = 0;
};

class LineReader {
 public:
  virtual ~LineReader() = default;
  // Waits for a line or a signal. `prompt` is shown where somebody can see it.
  virtual InputLine read(const std::string& prompt) = 0;
};

// Lines of a pipe, a file, or a terminal as it is; no prompt. A last line without a line feed
// counts.
class PlainLines final : public LineReader {
 public:
  PlainLines(int fd, TerminalSignals& signals) : fd_(fd), signals_(signals) {}
  InputLine read(const std::string& prompt) override;

 private:
  const int fd_;
  TerminalSignals& signals_;
  std::string pending_;
  bool ended_ = false;
};

// One message: lines that end in a backslash go on in the next one. What was given so far is lost
// with kInterrupted; an end behind a backslash is the end of the message.
InputLine read_message(LineReader& lines, const std::string& prompt,
                       const std::string& next_prompt);

}  // namespace baton::cli
