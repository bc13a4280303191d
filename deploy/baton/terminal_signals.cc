#include "deploy/baton/terminal_signals.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/stop_signal.h"

namespace baton::cli {

TerminalSignals::TerminalSignals() {
  const sigset_t both = stop_signals();
  pthread_sigmask(SIG_BLOCK, &both, &before_);
  fd_ = signalfd(-1, &both, SFD_NONBLOCK | SFD_CLOEXEC);
}

TerminalSignals::~TerminalSignals() {
  while (take() != 0) {
  }
  close(fd_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int TerminalSignals::take() {
  signalfd_siginfo info{};
  return read(fd_, &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
}

WokenBy TerminalSignals::wait(Duration limit, int input_fd) const {
  const TimePoint deadline = std::chrono::steady_clock::now() + limit;
  while (true) {
    const Duration left =
        std::max<Duration>(deadline - std::chrono::steady_clock::now(), Duration::zero());
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    pollfd fds[2] = {{fd_, POLLIN, 0}, {input_fd, POLLIN, 0}};
    const int n = poll(fds, 2, static_cast<int>(std::min<int64_t>(ms, 60'000)));
    if (n > 0) {
      return fds[0].revents != 0 ? WokenBy::kSignal : WokenBy::kInput;
    }
    if (left == Duration::zero()) {
      return WokenBy::kTime;
    }
  }
}

}  // namespace baton::cli
