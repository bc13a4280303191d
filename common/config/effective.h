#pragma once

// What "auto" means on this machine. The rules are documented in docs/operations.md.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/config/config.h"

namespace baton::config {

// What this process may use. Read once at start.
struct Machine {
  std::vector<int> cpus;      // affinity mask, ascending
  double cpu_quota = 0;       // CPUs' worth of time by the cgroup; 0 = no limit
  uint64_t memory_bytes = 0;  // the smaller of the memory and the cgroup's limit
  // Of that, what is not in use now. Page cache counts as free: the kernel takes it back.
  uint64_t memory_available_bytes = 0;
};

// Affinity mask, cgroup v2 or v1, /proc/meminfo. `root` is put before /proc and /sys (tests).
Result<Machine> read_machine(std::string_view root = "");

struct WorkerCpus {
  std::vector<int> cpus;  // one compute thread each; negative: a thread that is not pinned
  bool shared = false;    // some other worker of the file, or of the machine, uses one of them too
};

// The CPUs of one worker of the file. `cpus: auto`: of the usable CPUs (mask, at most ⌈quota⌉ of
// them, lowest first) those that no entry names are cut into equal contiguous ranges, decode
// workers first, then prefill workers, in the order of the file. With fewer CPUs than such workers
// they take turns. With `workers.share_machine: false` a worker has them all; a quota below the
// mask then leaves ⌈quota⌉ threads unpinned, because other containers have the same mask. A listed
// CPU outside the mask is refused by name.
Result<WorkerCpus> effective_cpus(const Config& config, const Worker& worker,
                                  const Machine& machine);

// A CPU of another worker, which may be used while no worker in any of the slots `idle` computes.
struct LentCpu {
  int cpu = 0;
  std::vector<int> idle;
};

// Where a worker says when it computes, and what it borrows meanwhile.
struct CpuLending {
  std::string table;  // path; empty: it has none
  int slot = 0;       // its line of the table
  std::vector<LentCpu> borrowed;
};

// A worker borrows the CPUs of others of the file if `baton up` made a table for them
// (workers.lend_cpus), its own are its alone and chosen by `auto`, it spins, and it has one rank.
// Those lend whose CPUs are theirs alone and chosen by `auto`. Of several that may borrow from one
// worker, only the first in the order of effective_cpus() that computes does.
Result<CpuLending> effective_lending(const Config& config, const Worker& worker,
                                     const Machine& machine);

// The line of a worker in that table: its place in the order of effective_cpus(); nothing for a
// worker that has none.
std::optional<int> lending_slot(const Config& config, std::string_view name);

// Bytes of the KV pool for `kv_cache: auto`: a sixteenth of the memory, divided by the number of
// workers in the file that share the machine, at least 64 MiB. Bytes as given otherwise; for blocks
// count × bytes_per_block.
uint64_t effective_kv_cache_bytes(const Config& config, const Worker& worker,
                                  const Machine& machine, uint64_t bytes_per_block);

// `reduction_segments: auto` is the least common multiple of the degrees in the file.
int effective_reduction_segments(const Config& config);

// Folders for packed weights, best first. `model.packed_cache: auto` is the model's own folder,
// then $XDG_CACHE_HOME/baton or else $HOME/.cache/baton; `off` is none.
std::vector<std::string> effective_packed_folders(const Config& config);

// Whether idle compute threads spin: `waiting`, or with auto only when their CPUs are not shared.
bool effective_spinning(const Worker& worker, const WorkerCpus& cpus);

// "0-3,8" to {0,1,2,3,8}: ascending, no doubles, at most 4096 CPUs.
Result<std::vector<int>> parse_cpu_list(std::string_view text);

}  // namespace baton::config
