#pragma once

// SIGINT and SIGTERM as something that a loop can poll.

#include <signal.h>

namespace baton {

// The two of them.
sigset_t stop_signals();

// Blocks both signals, ignores SIGPIPE, and returns a non-blocking signalfd that the caller closes.
// Called in main() before any thread starts, so that no thread receives the signals.
int block_stop_signals();

// Whether a signal came; `fd` may be -1 (never). The first one asks for a drain: from then on both
// signals have their usual effect on this thread again, so that a second one ends the process.
bool take_stop_signal(int fd);

}  // namespace baton
