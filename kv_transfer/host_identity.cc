#include "kv_transfer/host_identity.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

namespace baton::kv_transfer {

HostIdentity this_process() {
  HostIdentity id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id.boot_id;
  std::array<char, 64> link{};
  const ssize_t length = readlink("/proc/self/ns/pid", link.data(), link.size());
  if (length > 0) {
    id.pid_namespace.assign(link.data(), static_cast<size_t>(length));
  }
  id.pid = static_cast<uint32_t>(getpid());
  return id;
}

Result<ProcessWatch> ProcessWatch::open(uint32_t pid) {
  const long fd = syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0);
  if (fd < 0) {
    const std::string text = "process " + std::to_string(pid) + ": " + std::strerror(errno);
    return errno == ESRCH ? not_found(text) : unsupported(text);
  }
  ProcessWatch watch;
  watch.fd_ = static_cast<int>(fd);
  return watch;
}

ProcessWatch::~ProcessWatch() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}
ProcessWatch::ProcessWatch(ProcessWatch&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
ProcessWatch& ProcessWatch::operator=(ProcessWatch&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

bool ProcessWatch::ended() const {
  if (fd_ < 0) {
    return false;
  }
  pollfd polled{fd_, POLLIN, 0};
  return ::poll(&polled, 1, 0) == 1;
}

}  // namespace baton::kv_transfer
