#pragma once

// Line editing on a terminal, by libedit: cursor keys, history, UTF-8. The one part that sees it.

#include <memory>

#include "deploy/baton/terminal_lines.h"

namespace baton::cli {

// On the program's own stdin and stdout, which must be a terminal. Text that is pasted keeps its
// lines: each but the last arrives with a backslash at its end (read_message). One at a time.
class TerminalEditor final : public LineReader {
 public:
  explicit TerminalEditor(TerminalSignals& signals);
  ~TerminalEditor() override;
  InputLine read(const std::string& prompt) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton::cli
