#include "kv_transfer/agent_options.h"

namespace baton::kv_transfer {

AgentOptions agent_options(const config::Config& config) {
  const config::Transfer& from = config.transfer;
  AgentOptions options;
  options.transports = from.transports;
  options.devices = from.devices;
  options.digest = from.digest;
  Timeouts& to = options.timeouts;
  to.handshake = from.handshake_timeout;
  to.reserve = from.reserve_timeout;
  to.no_progress = from.no_progress_timeout;
  to.transfer_base = from.deadline_base;
  to.rate_share = from.deadline_rate_share;
  to.transfer_max = from.deadline_limit;
  to.commit_ack = from.commit_ack_timeout;
  to.commit_resends = static_cast<int>(from.commit_resends);
  to.abort_drain = from.abort_drain_timeout;
  to.lease_extra = from.lease_margin;
  to.heartbeat = from.heartbeat;
  to.peer_dead = from.dead_after;
  to.quarantine_alarm = from.quarantine_alarm;
  to.endpoint_close = from.endpoint_close_timeout;
  to.reconnect_min = from.reconnect_min;
  to.reconnect_max = from.reconnect_max;
  to.time_scale = static_cast<double>(config.test.time_scale);
  return options;
}

}  // namespace baton::kv_transfer
