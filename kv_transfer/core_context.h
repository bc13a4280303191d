#pragma once

// What the parts of the core share. All of it outlives them and belongs to the agent's thread.

#include <functional>

#include "kv_transfer/control_port.h"
#include "kv_transfer/transfer.h"
#include "kv_transfer/transfer_metrics.h"

namespace baton::kv_transfer {

struct CoreContext {
  const AgentOptions& options;  // timeouts already scaled
  ControlPort& control;
  TransferMetrics& metrics;
  const std::function<void(Event)>& emit;
};

// `d` times the options' time_scale, for every timeout.
Timeouts scaled(const Timeouts& timeouts);

}  // namespace baton::kv_transfer
