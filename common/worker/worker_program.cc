#include "common/worker/worker_program.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <utility>

#include "common/base/host_identity.h"
#include "common/base/log.h"
#include "common/base/stop_signal.h"
#include "common/config/effective.h"
#include "common/config/program_options.h"
#include "common/device/isa.h"
#include "common/engine/memory_need.h"
#include "common/worker/advertised.h"
#include "common/worker/numerics_gate.h"
#include "common/worker/probes.h"

namespace baton::worker {
namespace {

std::string instruction_sets() {
  std::string names;
  for (const device::Isa isa : device::available_isas()) {
    names += (names.empty() ? "" : " ") + std::string(device::isa_name(isa));
  }
  return names;
}

// The worker's CPUs cut into ranks of equal size. With fewer CPUs than ranks the ranks share them.
device::TeamOptions team_options(const config::WorkerCpus& cpus, int ranks, bool spin) {
  device::TeamOptions team;
  const int available = static_cast<int>(cpus.cpus.size());
  const int threads = std::max(1, available / ranks);
  team.cpus.assign(static_cast<size_t>(ranks), {});
  for (int rank = 0; rank < ranks; ++rank) {
    for (int thread = 0; thread < threads; ++thread) {
      team.cpus[static_cast<size_t>(rank)].push_back(
          cpus.cpus[static_cast<size_t>((rank * threads + thread) % available)]);
    }
  }
  team.wait = spin && available >= ranks ? device::WaitPolicy::kSpin : device::WaitPolicy::kYield;
  return team;
}

Result<engine::EngineOptions> engine_options(const config::Config& config,
                                             const config::Worker& entry, config::Role role) {
  engine::EngineOptions options;
  options.model_path = config.model.path;
  options.pool = role == config::Role::kPrefill ? engine::EngineOptions::Pool::kPrefill
                                                : engine::EngineOptions::Pool::kDecode;
  options.packed_folders = config::effective_packed_folders(config);
  BATON_ASSIGN_OR_RETURN(options.isa, device::choose_isa(config::to_string(config.isa)));
  BATON_ASSIGN_OR_RETURN(const config::Machine machine, config::read_machine());
  BATON_ASSIGN_OR_RETURN(const config::WorkerCpus cpus,
                         config::effective_cpus(config, entry, machine));
  options.arithmetic = config.numerics == config::Numerics::kFast ? engine::Arithmetic::kFast
                                                                  : engine::Arithmetic::kCanonical;
  options.team = team_options(cpus, static_cast<int>(entry.tensor_parallel),
                              config::effective_spinning(entry, cpus));
  options.segments = config::effective_reduction_segments(config);
  options.block_tokens = static_cast<int>(entry.block_tokens);
  if (entry.kv_cache.unit == config::KvCacheSize::Unit::kBlocks) {
    options.blocks = static_cast<int>(entry.kv_cache.count);
  } else {
    options.kv_bytes = config::effective_kv_cache_bytes(config, entry, machine, 1);
  }
  options.touch = kv_cache::Touch::kByOwner;
  const bool put =
      std::ranges::find(config.transfer.transports, "pool") != config.transfer.transports.end();
  options.backing = put && role == config::Role::kDecode ? kv_cache::Backing::kShared
                                                         : kv_cache::Backing::kPrivate;
  options.max_context = static_cast<int>(config.model.max_context);
  options.max_batch_tokens = static_cast<int>(entry.max_chunk_tokens + entry.max_batch_sequences);
  return options;
}

// The table in which the workers of this machine say when they compute; nothing without one. A
// worker that cannot open it does without.
Result<std::optional<device::StepTable>> join_lending(const config::Config& config,
                                                      const config::Worker& entry,
                                                      device::TeamOptions& team) {
  BATON_ASSIGN_OR_RETURN(const config::Machine machine, config::read_machine());
  BATON_ASSIGN_OR_RETURN(const config::CpuLending lending,
                         config::effective_lending(config, entry, machine));
  if (lending.table.empty()) {
    return std::optional<device::StepTable>();
  }
  Result<device::StepTable> table = device::StepTable::open(lending.table);
  if (!table.ok()) {
    log_warn("CPUs are not lent", {{"reason", table.status().message()}});
    return std::optional<device::StepTable>();
  }
  table->release(lending.slot);  // what a life before may have left
  team.slot = lending.slot;
  for (const config::LentCpu& lent : lending.borrowed) {
    team.borrowed.push_back({.cpu = lent.cpu, .idle = lent.idle});
  }
  return std::optional<device::StepTable>(std::move(table).value());
}

// Before anything is allocated: a message with the sum instead of the kernel's killer.
Status check_memory(const engine::EngineOptions& options, const std::string& name) {
  BATON_ASSIGN_OR_RETURN(const config::Machine machine, config::read_machine());
  BATON_ASSIGN_OR_RETURN(const engine::MemoryNeed need, engine::memory_need(options));
  const engine::ProgramNeed own{name, need};
  return engine::check_memory("this worker", {&own, 1}, machine.memory_available_bytes);
}

wire::WorkerInfo worker_info(const Environment& env, config::Role role,
                             const std::string& transfer_address, const std::string& http_url) {
  const model::ModelDescription& model = env.engine.description();
  wire::WorkerInfo info;
  info.role = role == config::Role::kPrefill ? wire::Role::kPrefill : wire::Role::kDecode;
  info.name = env.entry.name;
  info.incarnation = env.incarnation;
  info.model_name = env.config.model.name;
  info.model_hash = env.engine.model_hash();
  info.numerics = env.engine.numerics_id();
  info.transfer_address = transfer_address;
  info.http_url = http_url;
  info.tensor_parallel = static_cast<uint32_t>(env.engine.ranks());
  info.segments = static_cast<uint32_t>(env.engine.segments().segments());
  info.block_tokens = static_cast<uint32_t>(env.blocks.block_tokens());
  info.max_context = static_cast<uint32_t>(model.max_context);
  info.vocab_size = static_cast<uint32_t>(model.vocab);
  const size_t layer_bytes = env.engine.pool(0).layout().token_bytes(model.kv_heads);
  for (int g = 0; g < env.blocks.groups(); ++g) {
    const kv_cache::CacheGroup& group = env.blocks.group(g);
    const bool window = group.kind == kv_cache::CacheKind::kWindow;
    (window ? info.window_blocks_total : info.blocks_total) =
        static_cast<uint32_t>(env.blocks.pool(g).total());
    (window ? info.window_kv_bytes_per_token : info.kv_bytes_per_token) =
        static_cast<uint32_t>(layer_bytes * static_cast<size_t>(group.layers));
    info.window_tokens = static_cast<uint32_t>(group.window);
  }
  const HostIdentity host = this_process();
  info.pid = host.pid;
  info.boot_id = host.boot_id;
  info.pid_namespace = host.pid_namespace;
  return info;
}

Status run(const config::Startup& startup, config::Role role, int stop_fd,
           const RoleFactory& factory) {
  const config::Config& config = startup.config;
  BATON_ASSIGN_OR_RETURN(const config::Worker* entry, config::own_entry(config, startup.self));
  const SteadyClock clock;
  SystemRandom random;
  const Incarnation incarnation{random.next_nonzero()};
  BATON_ASSIGN_OR_RETURN(const std::optional<wire::ClusterKey> key,
                         wire::read_cluster_key(config.cluster.key_file));

  BATON_ASSIGN_OR_RETURN(engine::EngineOptions options, engine_options(config, *entry, role));
  BATON_ASSIGN_OR_RETURN(std::optional<device::StepTable> steps,
                         join_lending(config, *entry, options.team));
  options.team.steps = steps ? &*steps : nullptr;
  BATON_RETURN_IF_ERROR(check_memory(options, entry->name));
  if (config.isa == config::Isa::kAuto && !device::amx_refusal().empty()) {
    log_warn("this CPU has AMX, but it is not used", {{"reason", device::amx_refusal()}});
  }
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Engine> engine,
                         engine::Engine::create(options));
  BATON_RETURN_IF_ERROR(check_numerics(*engine, config.model.path, config.numerics_force));
  kv_cache::BlockPools blocks({.groups = engine->pool(0).layout().groups,
                               .blocks = engine->pool(0).group_blocks(),
                               .block_tokens = options.block_tokens,
                               .prefix_cache = entry->prefix_cache,
                               .root = kv_cache::cache_root(
                                   engine->model_hash(), engine->numerics_id(), options.segments)});
  metrics::Registry registry(
      {.program = role == config::Role::kPrefill ? metrics::kByPrefill : metrics::kByDecode,
       .model_name = config.model.name,
       .worker = entry->name});
  registry.set_info(metrics::MetricId::kCacheConfigInfo,
                    {std::to_string(blocks.block_tokens()), std::to_string(blocks.pool(0).total()),
                     "bf16", entry->prefix_cache ? "True" : "False"});
  const Waker waker;
  wire::Context context(key);
  BATON_RETURN_IF_ERROR(context.start_faults(config.test.faults, entry->name, random));
  SystemResolver resolver;
  BATON_ASSIGN_OR_RETURN(RouterLinks links,
                         RouterLinks::connect(context, {.addresses = config.workers.routers,
                                                        .heartbeat = config.workers.heartbeat,
                                                        .resolver = &resolver}));
  grammar::GrammarCache grammars(grammar::vocabulary_of_model(config.model.path));
  Environment env{config, *entry,   incarnation, clock, random,  *engine,
                  blocks, registry, waker,       links, context, grammars};
  WorkerLoop loop({.incarnation = incarnation,
                   .heartbeat = config.workers.heartbeat,
                   .drain_limit = config.workers.drain,
                   .stuck_after = config::scaled(config, 1s),
                   .prompts_only = role == config::Role::kPrefill,
                   .stop_fd = stop_fd,
                   .steps = options.team.steps,
                   .slot = options.team.slot},
                  clock, *engine, blocks, links, registry, waker);
  ProbeLimits limits;
  limits.loop_stuck = config::scaled(config, limits.loop_stuck);
  limits.step_stuck = config::scaled(config, limits.step_stuck);
  limits.transfer_stuck = config::scaled(config, limits.transfer_stuck);
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<http::Server> probes,
                         serve_probes(entry->http, loop.health(), clock, registry, limits));
  BATON_ASSIGN_OR_RETURN(const MadeRole made, factory(env));
  links.set_info(worker_info(env, role, made.transfer_address,
                             advertised_url(probes->url(), entry->advertise)));
  log_info("ready", {{"model", config.model.name},
                     {"isa", std::string(device::isa_name(options.isa))},
                     {"ranks", engine->ranks()},
                     {"threads_per_rank", options.team.cpus[0].size()},
                     {"borrowed_cpus", options.team.borrowed.size()},
                     {"blocks", blocks.pool(0).total()},
                     {"window_blocks", blocks.groups() > 1 ? blocks.pool(1).total() : 0},
                     {"block_tokens", blocks.block_tokens()},
                     {"numerics", engine->numerics_id()},
                     {"http", probes->url()}});
  loop.run(*made.role);
  return Status();
}

}  // namespace

int run_worker_program(config::Role role, int argc, char** argv, const RoleFactory& factory) {
  const bool prefill = role == config::Role::kPrefill;
  const config::Startup startup = config::start_program(
      {.program = prefill ? "baton-prefill" : "baton-decode",
       .purpose = prefill ? "Prefills prompts and hands their KV cache to decode workers."
                          : "Receives KV caches and decodes them in one continuous batch.",
       .role = role,
       .instruction_sets = instruction_sets()},
      argc, argv, std::cout, std::cerr);
  if (startup.exit_status) {
    return *startup.exit_status;
  }
  init_log(startup.log);
  const int stop_fd = block_stop_signals();
  const Status status = run(startup, role, stop_fd, factory);
  close(stop_fd);
  if (!status.ok()) {
    log_error(status.message());
    return config::kExitCannotStart;
  }
  log_info("stopped");
  return config::kExitStopped;
}

}  // namespace baton::worker
