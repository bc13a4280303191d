#pragma once

// A program started as a child of this process. Move-only; a child that still runs is killed and
// reaped when its object dies, and the kernel kills it when this process dies in any other way.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace baton::cli {

struct ChildExit {
  bool signalled = false;
  int code = 0;                 // exit status, or the signal's number
  std::string to_text() const;  // "exit status 1", "signal 9 (Killed)"
};

class ChildProcess {
 public:
  // Runs argv[0] (a path) in a process group of its own, so that a terminal's Ctrl-C reaches only
  // us; with no signal blocked, standard input empty and standard output going to our standard
  // error. Call it from the thread that outlives the child: the kernel's promise holds for that
  // thread. unavailable: argv[0] cannot be run, with the system's reason.
  // `output_fd`: where both outputs go instead; borrowed.
  static Result<ChildProcess> start(const std::vector<std::string>& argv, int output_fd = -1);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  int exit_fd() const { return pidfd_; }  // readable when the child has ended
  void signal(int number) const;          // nothing once it is reaped
  // Reaps the child if it has ended; afterwards pid() is 0.
  std::optional<ChildExit> try_reap();

 private:
  ChildProcess(pid_t pid, int pidfd) : pid_(pid), pidfd_(pidfd) {}
  void end();

  pid_t pid_ = 0;
  int pidfd_ = -1;
};

}  // namespace baton::cli
