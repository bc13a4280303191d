#pragma once

// For tests of roles: a transfer agent that meets its peers inside of this process.

#include <cstdint>
#include <string>

#include "kv_transfer/transfer.h"
#include "kv_transfer/transports/inproc/inproc_path.h"

namespace baton::kv_transfer {

// Of an engine::Engine of one rank, which this folder does not know.
template <typename Engine>
AgentOptions inproc_agent_options(const Engine& engine, wire::Role role, const std::string& name,
                                  uint64_t incarnation, InprocHub& hub) {
  AgentOptions options;
  options.role = role;
  options.name = name;
  options.incarnation = Incarnation{incarnation};
  options.transports = {"inproc"};
  options.model_hash = engine.model_hash();
  options.numerics = engine.numerics_id();
  options.pools = {&engine.pool(0)};
  options.inproc = &hub;
  if (role == wire::Role::kDecode) {
    options.listen = "tcp://127.0.0.1:0";
  }
  return options;
}

}  // namespace baton::kv_transfer
