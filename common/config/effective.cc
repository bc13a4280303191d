#include "common/config/effective.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>

#include "common/config/values.h"

namespace baton::config {
namespace {

constexpr int kMaxCpu = 4095;
// Faulting a pool in costs seconds a gigabyte on a virtual machine, so the share is modest.
constexpr uint64_t kMemoryShare = 16;
constexpr uint64_t kLeastKvBytes = 64ull << 20;

std::optional<std::string> read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) {
    return std::nullopt;
  }
  return line;
}

// The directory itself and those above it, down to "/".
std::vector<std::string> with_parents(std::string path) {
  std::vector<std::string> out;
  while (path.size() > 1) {
    out.push_back(path);
    path.resize(path.rfind('/'));
  }
  out.push_back("");
  return out;
}

// Paths of this process by controller: "" for version 2, "cpu", "memory" for version 1.
std::map<std::string, std::string> cgroup_paths(const std::string& root) {
  std::map<std::string, std::string> out;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    std::istringstream controllers(line.substr(first + 1, second - first - 1));
    const std::string path = line.substr(second + 1);
    std::string controller;
    bool any = false;
    while (std::getline(controllers, controller, ',')) {
      out[controller] = path;
      any = true;
    }
    if (!any) {
      out[""] = path;
    }
  }
  return out;
}

void lower(double& quota, double candidate) {
  if (candidate > 0 && (quota == 0 || candidate < quota)) {
    quota = candidate;
  }
}

// cpu.max of version 2: "150000 100000" or "max 100000".
double quota_of_cpu_max(const std::string& line) {
  std::istringstream in(line);
  double quota = 0;
  double period = 0;
  return in >> quota >> period && period > 0 ? quota / period : 0;
}

double read_quota(const std::string& root, std::map<std::string, std::string>& groups) {
  double quota = 0;
  for (const std::string& path : with_parents(groups[""])) {
    const auto line = read_line(root + "/sys/fs/cgroup" + path + "/cpu.max");
    lower(quota, line ? quota_of_cpu_max(*line) : 0);
  }
  for (const std::string& path : with_parents(groups["cpu"])) {
    const std::string folder = root + "/sys/fs/cgroup/cpu" + path;
    const auto time = read_line(folder + "/cpu.cfs_quota_us");
    const auto period = read_line(folder + "/cpu.cfs_period_us");
    if (time && period) {
      lower(quota, quota_of_cpu_max(*time + " " + *period));
    }
  }
  return quota;
}

// The number after `key` in a file of "key number" lines; 0 without one.
uint64_t number_after(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::string name;
    uint64_t number = 0;
    if (in >> name >> number && name == key) {
      return number;
    }
  }
  return 0;
}

// The files of one control group that tell of its memory.
struct MemoryFiles {
  std::string_view limit, usage;
  std::string_view reclaimable;  // key of memory.stat
};
constexpr MemoryFiles kMemoryV2 = {"memory.max", "memory.current", "inactive_file"};
constexpr MemoryFiles kMemoryV1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                   "total_inactive_file"};

// Without a limit the kernel writes "max", or a number near 2^63.
void lower(Machine& machine, const std::string& folder, const MemoryFiles& names) {
  const auto read = [&folder](std::string_view name) -> uint64_t {
    const auto line = read_line(folder + "/" + std::string(name));
    return line ? parse_size(*line).value_or(0) : 0;
  };
  const uint64_t limit = read(names.limit);
  if (limit == 0) {
    return;
  }
  const uint64_t usage = read(names.usage);
  const uint64_t cache = number_after(folder + "/memory.stat", names.reclaimable);
  const uint64_t in_use = usage - std::min(usage, cache);
  machine.memory_bytes = std::min(machine.memory_bytes, limit);
  machine.memory_available_bytes =
      std::min(machine.memory_available_bytes, limit - std::min(limit, in_use));
}

void read_memory(const std::string& root, std::map<std::string, std::string>& groups,
                 Machine& machine) {
  const std::string meminfo = root + "/proc/meminfo";
  machine.memory_bytes = number_after(meminfo, "MemTotal:") * 1024;
  const uint64_t available = number_after(meminfo, "MemAvailable:") * 1024;
  machine.memory_available_bytes = available > 0 ? available : machine.memory_bytes;
  for (const std::string& path : with_parents(groups[""])) {
    lower(machine, root + "/sys/fs/cgroup" + path, kMemoryV2);
  }
  for (const std::string& path : with_parents(groups["memory"])) {
    lower(machine, root + "/sys/fs/cgroup/memory" + path, kMemoryV1);
  }
}

Result<std::vector<int>> affinity_mask() {
  // Large enough for any kernel's mask; the fixed cpu_set_t ends at 1,024 CPUs.
  cpu_set_t* set = CPU_ALLOC(kMaxCpu + 1);
  const size_t size = CPU_ALLOC_SIZE(kMaxCpu + 1);
  CPU_ZERO_S(size, set);
  std::vector<int> cpus;
  const int error = sched_getaffinity(0, size, set) == 0 ? 0 : errno;
  for (int cpu = 0; error == 0 && cpu <= kMaxCpu; ++cpu) {
    if (CPU_ISSET_S(static_cast<size_t>(cpu), size, set)) {
      cpus.push_back(cpu);
    }
  }
  CPU_FREE(set);
  if (error != 0 || cpus.empty()) {
    return internal_error("cannot read the CPU affinity: " +
                          std::generic_category().message(error));
  }
  return cpus;
}

// All workers of the file, decode first: the order in which CPUs are given out.
std::vector<const Worker*> in_cpu_order(const Config& config) {
  std::vector<const Worker*> out;
  for (const std::vector<Worker>* list : {&config.decode, &config.prefill}) {
    for (const Worker& worker : *list) {
      out.push_back(&worker);
    }
  }
  return out;
}

std::string format_cpus(const std::vector<int>& cpus) {
  std::string out;
  for (size_t i = 0; i < cpus.size();) {
    size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) {
      ++end;
    }
    out += (out.empty() ? "" : ",") + std::to_string(cpus[i]);
    if (end - i > 1) {
      out += "-" + std::to_string(cpus[end - 1]);
    }
    i = end;
  }
  return out;
}

// As many threads as the quota pays for, where the mask has more CPUs than that: it is then the
// mask of every container on the machine, and all of them would be pinned to its first CPUs.
std::optional<WorkerCpus> unpinned(const Worker& worker, const Machine& machine) {
  const double threads = std::ceil(machine.cpu_quota);
  if (worker.cpus != "auto" || threads < 1 || threads >= static_cast<double>(machine.cpus.size())) {
    return std::nullopt;
  }
  return WorkerCpus{std::vector<int>(static_cast<size_t>(threads), -1), true};
}

// CPUs for entries with "auto": usable ones that no list names, or all usable ones if none is left.
std::vector<int> automatic_pool(const std::vector<const Worker*>& workers, const Machine& machine) {
  size_t usable = machine.cpus.size();
  if (machine.cpu_quota > 0) {
    usable = std::min(usable, static_cast<size_t>(std::ceil(machine.cpu_quota)));
  }
  std::set<int> named;
  for (const Worker* worker : workers) {
    if (worker->cpus != "auto") {
      const Result<std::vector<int>> list = parse_cpu_list(worker->cpus);
      if (list.ok()) {
        named.insert(list->begin(), list->end());
      }
    }
  }
  std::vector<int> pool;
  for (const int cpu : machine.cpus) {
    if (!named.contains(cpu) && pool.size() < std::max<size_t>(usable, 1)) {
      pool.push_back(cpu);
    }
  }
  return pool.empty() ? machine.cpus : pool;
}

Result<std::vector<int>> cpus_of(const std::vector<const Worker*>& workers, const Worker& worker,
                                 const Machine& machine) {
  if (worker.cpus != "auto") {
    BATON_ASSIGN_OR_RETURN(const std::vector<int> list, parse_cpu_list(worker.cpus));
    for (const int cpu : list) {
      if (!std::ranges::binary_search(machine.cpus, cpu)) {
        return invalid_argument("cpus of " + worker.name + ": CPU " + std::to_string(cpu) +
                                " is not one that this process may use; those are " +
                                format_cpus(machine.cpus));
      }
    }
    return list;
  }
  const std::vector<int> pool = automatic_pool(workers, machine);
  size_t count = 0;
  size_t index = 0;
  for (const Worker* other : workers) {
    index = other == &worker || other->name == worker.name ? count : index;
    count += other->cpus == "auto" ? 1 : 0;
  }
  count = std::max<size_t>(count, 1);
  if (pool.size() < count) {
    return std::vector<int>{pool[index % pool.size()]};
  }
  return std::vector<int>(pool.begin() + static_cast<ptrdiff_t>(index * pool.size() / count),
                          pool.begin() + static_cast<ptrdiff_t>((index + 1) * pool.size() / count));
}

}  // namespace

Result<Machine> read_machine(std::string_view root) {
  Machine machine;
  BATON_ASSIGN_OR_RETURN(machine.cpus, affinity_mask());
  const std::string base(root);
  std::map<std::string, std::string> groups = cgroup_paths(base);
  machine.cpu_quota = read_quota(base, groups);
  read_memory(base, groups, machine);
  if (machine.memory_bytes == 0) {
    return internal_error("cannot read the size of the memory from /proc/meminfo");
  }
  return machine;
}

Result<WorkerCpus> effective_cpus(const Config& config, const Worker& worker,
                                  const Machine& machine) {
  const bool alone = !config.workers.share_machine;
  if (const std::optional<WorkerCpus> out = alone ? unpinned(worker, machine) : std::nullopt; out) {
    return *out;
  }
  const std::vector<const Worker*> workers =
      alone ? std::vector<const Worker*>{&worker} : in_cpu_order(config);
  WorkerCpus out;
  BATON_ASSIGN_OR_RETURN(out.cpus, cpus_of(workers, worker, machine));
  for (const Worker* other : workers) {
    if (other->name == worker.name) {
      continue;
    }
    const Result<std::vector<int>> theirs = cpus_of(workers, *other, machine);
    out.shared = out.shared || (theirs.ok() && std::ranges::any_of(*theirs, [&](int cpu) {
                                  return std::ranges::binary_search(out.cpus, cpu);
                                }));
  }
  return out;
}

std::optional<int> lending_slot(const Config& config, std::string_view name) {
  constexpr int kSlots = 64;  // of the table
  const std::vector<const Worker*> workers = in_cpu_order(config);
  const auto at = std::ranges::find(workers, name, &Worker::name);
  const auto slot = static_cast<int>(at - workers.begin());
  return at == workers.end() || slot >= kSlots ? std::nullopt : std::optional(slot);
}

Result<CpuLending> effective_lending(const Config& config, const Worker& worker,
                                     const Machine& machine) {
  const std::string& table = config.workers.lend_cpus;
  const std::optional<int> own = lending_slot(config, worker.name);
  CpuLending out;
  if (table == "auto" || table == "off" || !own || !config.workers.share_machine) {
    return out;
  }
  out.table = table;
  out.slot = *own;
  const std::vector<const Worker*> workers = in_cpu_order(config);
  std::vector<WorkerCpus> cpus;
  for (const Worker* each : workers) {
    BATON_ASSIGN_OR_RETURN(WorkerCpus theirs, effective_cpus(config, *each, machine));
    cpus.push_back(std::move(theirs));
  }
  const auto slots = static_cast<int>(workers.size());
  const auto lends = [&](int slot) {
    return workers[static_cast<size_t>(slot)]->cpus == "auto" &&
           !cpus[static_cast<size_t>(slot)].shared;
  };
  const auto borrows = [&](int slot) {
    const Worker& each = *workers[static_cast<size_t>(slot)];
    return lends(slot) && each.tensor_parallel == 1 &&
           effective_spinning(each, cpus[static_cast<size_t>(slot)]);
  };
  for (int lender = 0; lender < slots && borrows(*own); ++lender) {
    if (lender == *own || !lends(lender) || !lending_slot(config, workers[lender]->name)) {
      continue;
    }
    LentCpu lent{.cpu = 0, .idle = {lender}};
    for (int first = 0; first < *own; ++first) {
      if (first != lender && borrows(first)) {
        lent.idle.push_back(first);
      }
    }
    for (const int cpu : cpus[static_cast<size_t>(lender)].cpus) {
      lent.cpu = cpu;
      out.borrowed.push_back(lent);
    }
  }
  return out;
}

uint64_t effective_kv_cache_bytes(const Config& config, const Worker& worker,
                                  const Machine& machine, uint64_t bytes_per_block) {
  switch (worker.kv_cache.unit) {
    case KvCacheSize::Unit::kBytes:
      return worker.kv_cache.count;
    case KvCacheSize::Unit::kBlocks:
      return bytes_per_block != 0 && worker.kv_cache.count > UINT64_MAX / bytes_per_block
                 ? UINT64_MAX
                 : worker.kv_cache.count * bytes_per_block;
    case KvCacheSize::Unit::kAuto:
      break;
  }
  const uint64_t in_file = std::max<uint64_t>(config.prefill.size() + config.decode.size(), 1);
  const uint64_t workers = config.workers.share_machine ? in_file : 1;
  return std::max(machine.memory_bytes / kMemoryShare / workers, kLeastKvBytes);
}

int effective_reduction_segments(const Config& config) {
  if (config.reduction_segments > 0) {
    return static_cast<int>(config.reduction_segments);
  }
  int64_t segments = 1;
  for (const Worker* worker : in_cpu_order(config)) {
    segments = std::lcm(segments, std::max<int64_t>(worker->tensor_parallel, 1));
  }
  return static_cast<int>(segments);
}

std::vector<std::string> effective_packed_folders(const Config& config) {
  namespace fs = std::filesystem;
  if (config.model.packed_cache == "off") {
    return {};
  }
  if (config.model.packed_cache != "auto") {
    return {config.model.packed_cache};
  }
  const fs::path parent = fs::path(config.model.path).parent_path();
  std::vector<std::string> folders = {parent.empty() ? "." : parent.string()};
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache != nullptr && fs::path(cache).is_absolute()) {
    folders.push_back((fs::path(cache) / "baton").string());
  } else if (home != nullptr && fs::path(home).is_absolute()) {
    folders.push_back((fs::path(home) / ".cache" / "baton").string());
  }
  return folders;
}

bool effective_spinning(const Worker& worker, const WorkerCpus& cpus) {
  switch (worker.waiting) {
    case Waiting::kSpin:
      return true;
    case Waiting::kYield:
      return false;
    case Waiting::kAuto:
      break;
  }
  return !cpus.shared;
}

Result<std::vector<int>> parse_cpu_list(std::string_view text) {
  const auto fail = [&] {
    return invalid_argument("\"" + std::string(text) +
                            "\" is not a list of CPUs; write for example 0-3,8");
  };
  std::set<int> cpus;
  std::string_view rest = text;
  do {
    const size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    const size_t dash = item.find('-');
    const auto first = parse_integer(item.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_integer(item.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last > kMaxCpu) {
      return fail();
    }
    for (int64_t cpu = *first; cpu <= *last; ++cpu) {
      cpus.insert(static_cast<int>(cpu));
    }
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (comma != std::string_view::npos && rest.empty()) {
      return fail();  // a comma at the end
    }
  } while (!rest.empty());
  return std::vector<int>(cpus.begin(), cpus.end());
}

}  // namespace baton::config
