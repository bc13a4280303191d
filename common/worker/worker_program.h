#pragma once

// The start of both worker programs: command line, configuration, model, pool, probes, routers,
// loop, drain. What differs comes from a factory.

#include <functional>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/config/config.h"
#include "common/engine/engine.h"
#include "common/grammar/grammar.h"
#include "common/kv_cache/block_pools.h"
#include "common/metrics/registry.h"
#include "common/worker/role.h"
#include "common/worker/router_links.h"
#include "common/worker/worker_loop.h"

namespace baton::worker {

// What a role is built from; all of it outlives the role.
struct Environment {
  const config::Config& config;
  const config::Worker& entry;
  Incarnation incarnation;
  const Clock& clock;
  Random& random;
  engine::Engine& engine;
  kv_cache::BlockPools& blocks;
  metrics::Registry& registry;
  const Waker& waker;
  RouterLinks& links;
  wire::Context& context;  // with the cluster's key
  grammar::GrammarCache& grammars;
};

struct MadeRole {
  std::unique_ptr<Role> role;
  std::string transfer_address;  // of a decode worker's transfer agent
};
using RoleFactory = std::function<Result<MadeRole>(Environment&)>;

// Runs until stopped; the exit status of the program.
int run_worker_program(config::Role role, int argc, char** argv, const RoleFactory& factory);

}  // namespace baton::worker
