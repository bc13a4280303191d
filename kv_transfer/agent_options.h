#pragma once

// From the configuration to a transfer agent's options; the same for both sides.

#include "common/config/config.h"
#include "kv_transfer/transfer.h"

namespace baton::kv_transfer {

// Fills in transports, devices, digest and all deadlines (with test.time_scale). Identity, model
// and pools are the caller's to set.
AgentOptions agent_options(const config::Config& config);

}  // namespace baton::kv_transfer
