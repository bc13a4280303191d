#include "common/base/host_identity.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

namespace baton {
namespace {

std::string namespace_link(const char* path) {
  std::array<char, 64> link{};
  const ssize_t length = readlink(path, link.data(), link.size());
  return length > 0 ? std::string(link.data(), static_cast<size_t>(length)) : std::string();
}

// Each mount of a tmpfs has a device number of its own in the kernel, so that equal numbers are the
// same files. They are opened with the rights of the user.
std::string shared_memory() {
  struct stat info{};
  if (stat("/dev/shm", &info) != 0) {
    return {};
  }
  return std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino) + ":" +
         std::to_string(geteuid());
}

}  // namespace

HostIdentity this_process() {
  HostIdentity id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id.boot_id;
  id.pid_namespace = namespace_link("/proc/self/ns/pid");
  id.network_namespace = namespace_link("/proc/self/ns/net");
  id.shared_memory = shared_memory();
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

}  // namespace baton
