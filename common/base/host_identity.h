#pragma once

// Which machine and process this is, what of it others can reach, and whether another process still
// lives. A pid and a file in /dev/shm are names that mean something inside one namespace only:
// these say when two processes mean the same by them.

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace baton {

// Empty where the kernel does not tell; an unknown thing is never taken for a shared one.
struct HostIdentity {
  std::string boot_id;            // of the kernel's start
  std::string pid_namespace;      // "pid:[4026531836]"
  std::string network_namespace;  // "net:[4026531840]"
  std::string shared_memory;      // of /dev/shm as this user sees it: device, inode, user
  uint32_t pid = 0;

  // A pid of one names the same process for the other.
  bool shares_pids(const HostIdentity& other) const {
    return same_kernel(other) && equal(pid_namespace, other.pid_namespace);
  }
  // One can map what the other puts into /dev/shm. UCX opens it by pid, too.
  bool shares_memory(const HostIdentity& other) const {
    return shares_pids(other) && equal(shared_memory, other.shared_memory);
  }
  // Loopback of one is that of the other.
  bool shares_network(const HostIdentity& other) const {
    return same_kernel(other) && equal(network_namespace, other.network_namespace);
  }
  bool same_kernel(const HostIdentity& other) const { return equal(boot_id, other.boot_id); }

 private:
  static bool equal(const std::string& a, const std::string& b) { return !a.empty() && a == b; }
};
HostIdentity this_process();

// A process descriptor: readable from the moment the process has ended, also when nobody has waited
// for it (a zombie). Move-only.
class ProcessWatch {
 public:
  ProcessWatch() = default;
  // Only for a pid of a process that shares_pids() with this one. not_found when there is none.
  static Result<ProcessWatch> open(uint32_t pid);
  ~ProcessWatch();
  ProcessWatch(ProcessWatch&& other) noexcept;
  ProcessWatch& operator=(ProcessWatch&& other) noexcept;

  int poll_fd() const { return fd_; }  // -1 when it watches nothing
  bool ended() const;                  // does not block

 private:
  int fd_ = -1;
};

}  // namespace baton
