// The program baton-prefill.

#include "common/worker/worker_program.h"
#include "kv_transfer/agent_options.h"
#include "prefill_worker/prefill_role.h"

int main(int argc, char** argv) {
  using namespace baton;
  return worker::run_worker_program(
      config::Role::kPrefill, argc, argv, [](worker::Environment& env) -> Result<worker::MadeRole> {
        kv_transfer::AgentOptions options = kv_transfer::agent_options(env.config);
        options.role = wire::Role::kPrefill;
        options.name = env.entry.name;
        options.incarnation = env.incarnation;
        options.context = &env.context;
        options.model_hash = env.engine.model_hash();
        options.numerics = env.engine.numerics_id();
        options.segments = env.engine.segments().segments();
        for (int rank = 0; rank < env.engine.ranks(); ++rank) {
          options.pools.push_back(&env.engine.pool(rank));
        }
        auto role = std::make_unique<prefill_worker::PrefillRole>(env);
        BATON_RETURN_IF_ERROR(role->start(options));
        return worker::MadeRole{std::move(role), ""};
      });
}
