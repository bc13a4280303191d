// The program baton-decode.

#include "common/worker/advertised.h"
#include "common/worker/worker_program.h"
#include "decode_worker/decode_role.h"
#include "kv_transfer/agent_options.h"

int main(int argc, char** argv) {
  using namespace baton;
  return worker::run_worker_program(
      config::Role::kDecode, argc, argv, [](worker::Environment& env) -> Result<worker::MadeRole> {
        kv_transfer::AgentOptions options = kv_transfer::agent_options(env.config);
        options.role = wire::Role::kDecode;
        options.name = env.entry.name;
        options.incarnation = env.incarnation;
        options.context = &env.context;
        options.listen = "tcp://" + env.entry.listen;
        options.model_hash = env.engine.model_hash();
        options.numerics = env.engine.numerics_id();
        options.segments = env.engine.segments().segments();
        for (int rank = 0; rank < env.engine.ranks(); ++rank) {
          options.pools.push_back(&env.engine.pool(rank));
        }
        auto role = std::make_unique<decode_worker::DecodeRole>(env);
        BATON_RETURN_IF_ERROR(role->start(options));
        std::string address =
            worker::advertised_address(role->transfer_address(), env.entry.advertise);
        return worker::MadeRole{std::move(role), std::move(address)};
      });
}
