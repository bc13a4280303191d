#include "deploy/baton/engine_flags.h"

#include <algorithm>

#include "common/config/effective.h"

namespace baton::cli {
namespace {

constexpr int kBlockTokens = 32;

Result<engine::Arithmetic> arithmetic_of(const std::string& numerics) {
  if (numerics != "invariant" && numerics != "fast") {
    return invalid_argument("--numerics " + numerics + ": expected invariant or fast");
  }
  return numerics == "fast" ? engine::Arithmetic::kFast : engine::Arithmetic::kCanonical;
}

}  // namespace

Result<device::TeamOptions> team_of(const EngineFlags& flags, bool pinned_spinning) {
  BATON_ASSIGN_OR_RETURN(const int threads, thread_count(flags));
  const int ranks = flags.tensor_parallel;
  if (threads % ranks != 0) {
    return invalid_argument("--threads " + std::to_string(threads) + " cannot be shared out to " +
                            std::to_string(ranks) + " ranks; give a multiple");
  }
  BATON_ASSIGN_OR_RETURN(const config::Machine machine, config::read_machine());
  device::TeamOptions team;
  team.cpus.assign(static_cast<size_t>(ranks), {});
  const bool enough = static_cast<size_t>(threads) <= machine.cpus.size();
  for (int i = 0; i < threads; ++i) {
    const int cpu = pinned_spinning && enough ? machine.cpus[static_cast<size_t>(i)] : -1;
    team.cpus[static_cast<size_t>(i / (threads / ranks))].push_back(cpu);
  }
  team.wait = pinned_spinning && enough ? device::WaitPolicy::kSpin : device::WaitPolicy::kYield;
  return team;
}

Result<int> thread_count(const EngineFlags& flags) {
  if (flags.threads > 0) {
    return flags.threads;
  }
  BATON_ASSIGN_OR_RETURN(const config::Machine machine, config::read_machine());
  const int cpus = std::max<int>(1, static_cast<int>(machine.cpus.size()));
  return std::max(1, cpus / flags.tensor_parallel) * flags.tensor_parallel;
}

Result<std::unique_ptr<engine::Engine>> make_engine(const EngineFlags& flags,
                                                    const EngineNeeds& needs,
                                                    engine::EngineOptions::Pool pool) {
  engine::EngineOptions options;
  options.model_path = flags.model;
  options.pool = pool;
  BATON_ASSIGN_OR_RETURN(options.isa, device::choose_isa(flags.isa));
  BATON_ASSIGN_OR_RETURN(options.arithmetic, arithmetic_of(flags.numerics));
  BATON_ASSIGN_OR_RETURN(options.team, team_of(flags, needs.pinned_spinning));
  options.segments = flags.segments > 0 ? flags.segments : flags.tensor_parallel;
  options.block_tokens = kBlockTokens;
  options.blocks = (needs.positions + kBlockTokens - 1) / kBlockTokens * needs.sequences;
  options.window_blocks = options.blocks;  // no block is given back here
  options.max_batch_tokens = needs.batch_tokens;
  return engine::Engine::create(options);
}

}  // namespace baton::cli
