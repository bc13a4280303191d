#pragma once

// Which machine and process this is, and whether another process of the machine still lives.

#include <string>

#include "common/base/status.h"

namespace baton::kv_transfer {

// Two processes with equal boot id and pid namespace run on one kernel and can name each other by
// pid and share memory.
struct HostIdentity {
  std::string boot_id;
  std::string pid_namespace;
  uint32_t pid = 0;

  bool same_machine(const HostIdentity& other) const {
    return !boot_id.empty() && boot_id == other.boot_id && pid_namespace == other.pid_namespace;
  }
};
HostIdentity this_process();  // empty strings where /proc does not tell

// A process descriptor: readable from the moment the process has ended, also when nobody has waited
// for it (a zombie). Move-only.
class ProcessWatch {
 public:
  ProcessWatch() = default;
  static Result<ProcessWatch> open(uint32_t pid);  // not_found when there is no such process
  ~ProcessWatch();
  ProcessWatch(ProcessWatch&& other) noexcept;
  ProcessWatch& operator=(ProcessWatch&& other) noexcept;

  int poll_fd() const { return fd_; }  // -1 when it watches nothing
  bool ended() const;                  // does not block

 private:
  int fd_ = -1;
};

}  // namespace baton::kv_transfer
