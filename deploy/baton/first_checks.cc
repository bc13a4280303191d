#include "deploy/baton/first_checks.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "common/engine/memory_need.h"

namespace baton::cli {
namespace {

constexpr uint64_t kRouterBytes = 48ull << 20;
// UCX takes 17 MB a worker for its queues; the rest is for short-lived segments at the start.
constexpr uint64_t kShmBytesPerWorker = 20ull << 20;

engine::EngineOptions engine_options(const config::Config& config, const config::Worker& worker,
                                     config::Role role, const config::Machine& machine) {
  engine::EngineOptions options;
  options.model_path = config.model.path;
  options.pool = role == config::Role::kPrefill ? engine::EngineOptions::Pool::kPrefill
                                                : engine::EngineOptions::Pool::kDecode;
  options.team.cpus.resize(static_cast<size_t>(worker.tensor_parallel));
  options.segments = config::effective_reduction_segments(config);
  options.block_tokens = static_cast<int>(worker.block_tokens);
  if (worker.kv_cache.unit == config::KvCacheSize::Unit::kBlocks) {
    options.blocks = static_cast<int>(worker.kv_cache.count);
  } else {
    options.kv_bytes = config::effective_kv_cache_bytes(config, worker, machine, 1);
  }
  options.max_context = static_cast<int>(config.model.max_context);
  options.max_batch_tokens = static_cast<int>(worker.max_chunk_tokens + worker.max_batch_sequences);
  return options;
}

Status add_needs(const config::Config& config, config::Role role, const config::Machine& machine,
                 std::vector<engine::ProgramNeed>& needs) {
  const bool prefill = role == config::Role::kPrefill;
  // Workers of one role, degree and number of segments (one for the whole file) map one packed
  // file.
  const bool share = !config::effective_packed_folders(config).empty();
  std::set<int64_t> counted;
  for (const config::Worker& worker : prefill ? config.prefill : config.decode) {
    BATON_ASSIGN_OR_RETURN(engine::MemoryNeed need,
                           engine::memory_need(engine_options(config, worker, role, machine)));
    if (!counted.insert(worker.tensor_parallel).second && share) {
      need.weights = 0;
    }
    needs.push_back({worker.name, need});
  }
  return Status();
}

Status check_shm(const config::Config& config, uint64_t free_bytes) {
  const uint64_t workers = config.prefill.size() + config.decode.size();
  const bool hands_over = !config.prefill.empty() && !config.decode.empty();
  const bool by_shm = std::ranges::any_of(config.transfer.transports,
                                          [](const auto& name) { return name == "ucx-posix"; });
  const uint64_t needed = workers * kShmBytesPerWorker;
  if (!hands_over || !by_shm || needed <= free_bytes) {
    return Status();
  }
  return resource_exhausted(
      "/dev/shm has " + std::to_string(free_bytes >> 20) + " MiB free, " + std::to_string(workers) +
      " workers need " + std::to_string(needed >> 20) +
      "; start the container with a larger one (--shm-size 256m), or use --set "
      "transfer.transports=ucx-tcp");
}

}  // namespace

Status check_cluster_fits(const config::Config& config, const config::Machine& machine,
                          uint64_t shm_free_bytes) {
  std::vector<engine::ProgramNeed> needs;
  BATON_RETURN_IF_ERROR(add_needs(config, config::Role::kPrefill, machine, needs));
  BATON_RETURN_IF_ERROR(add_needs(config, config::Role::kDecode, machine, needs));
  needs.push_back({"router", {.weights = 0, .kv_cache = 0, .rest = kRouterBytes}});
  BATON_RETURN_IF_ERROR(engine::check_memory("the cluster", needs, machine.memory_available_bytes));
  return check_shm(config, shm_free_bytes);
}

uint64_t shm_free_bytes() {
  struct statvfs info{};
  if (statvfs("/dev/shm", &info) != 0) {
    return 0;
  }
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

}  // namespace baton::cli
