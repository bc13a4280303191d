#pragma once

// Ctrl-C and SIGTERM for commands that talk to a person: taken one by one, any number of times.

#include <signal.h>

#include "common/base/clock.h"

namespace baton::cli {

enum class WokenBy { kSignal, kInput, kTime };

// While one lives, SIGINT and SIGTERM are blocked in the thread that made it and in those that this
// thread starts, and arrive here instead. One thread at a time.
class TerminalSignals {
 public:
  TerminalSignals();
  ~TerminalSignals();  // what nobody took is dropped
  TerminalSignals(const TerminalSignals&) = delete;
  TerminalSignals& operator=(const TerminalSignals&) = delete;

  // Readable while a signal waits.
  int fd() const { return fd_; }
  // SIGINT or SIGTERM, whichever waits; 0 when none does. Does not wait.
  int take();
  // Waits, at most `limit`, until a signal is there or `input_fd` (-1: none) is readable. A signal
  // comes first.
  WokenBy wait(Duration limit, int input_fd = -1) const;

 private:
  sigset_t before_;
  int fd_;
};

}  // namespace baton::cli
