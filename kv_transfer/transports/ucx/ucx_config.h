#pragma once

// Settings of UCX that Baton depends on, and what it really did with them.

#include <ucp/api/ucp.h>

#include <memory>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "kv_transfer/transports/ucx/ucx_path.h"

namespace baton::kv_transfer {

struct ReleaseConfig {
  void operator()(ucp_config_t* config) const { ucp_config_release(config); }
};
using UcxConfig = std::unique_ptr<ucp_config_t, ReleaseConfig>;

// Reads UCX's own configuration and writes our keys over those that the environment leaves open.
// UCX accepts any key without complaint, so a wrong one shows only in the lane check.
Result<UcxConfig> make_config(const UcxOptions& options);

// The transports of the lanes in the text of ucp_ep_print_info ("lane[0]: 0:posix/memory.0 ..."):
// OK when there is at least one and all are that of `transport`.
Status check_lanes(std::string_view ep_info, std::string_view transport);

// UCX takes over SIGSEGV and others to print a trace; gives them back.
void restore_signal_handlers();

}  // namespace baton::kv_transfer
