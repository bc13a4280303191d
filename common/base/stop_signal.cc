#include "common/base/stop_signal.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace baton {

sigset_t stop_signals() {
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGINT);
  sigaddset(&both, SIGTERM);
  return both;
}

int block_stop_signals() {
  const sigset_t both = stop_signals();
  pthread_sigmask(SIG_BLOCK, &both, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signalfd(-1, &both, SFD_NONBLOCK | SFD_CLOEXEC);
}

bool take_stop_signal(int fd) {
  signalfd_siginfo info{};
  if (fd < 0 || read(fd, &info, sizeof(info)) != sizeof(info)) {
    return false;
  }
  const sigset_t both = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &both, nullptr);
  return true;
}

}  // namespace baton
