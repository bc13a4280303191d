#pragma once

// Data path over UCX (https://openucx.org), host memory: active messages by rendezvous, gathered on
// the sender and scattered by the receiver after it has looked at the header. Built and measured on
// UCX 1.13.1. The only folder that sees UCX; no type of it in this header.
//
// What UCX promises and what not (docs/adr, kv_transfer/README.md): rkeys protect nothing on host
// transports, so no remote memory access is used; a message sent without the rendezvous flag may
// reach its sender as a success before anybody has looked at it, so such messages are dropped; a
// posted receive cannot be taken back.

#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "kv_transfer/data_path.h"

namespace baton::kv_transfer {

struct UcxOptions {
  std::string transport;             // "ucx-posix" (shared memory) or "ucx-tcp"
  std::vector<std::string> devices;  // of ucx-tcp; "lo" keeps it on this machine
  Duration start_limit = 2s;
  // A peer that does not let its endpoint close is forgotten after this time.
  Duration close_limit = 50ms;
};

// Opens UCX on exactly that transport and proves it by a transfer to itself: the lane must be the
// named one, the bytes must arrive. Variables UCX_* of the environment win over the settings that
// Baton needs, and are logged. unavailable when the transport cannot be had, with what UCX said.
// Blocking, bounded by start_limit. The calling thread owns the path.
Result<std::unique_ptr<DataPath>> open_ucx_path(const UcxOptions& options);

}  // namespace baton::kv_transfer
