#pragma once

// The control plane as the core sees it: channels to peers that carry whole messages in order. In
// an agent it is ZeroMQ (control_sockets.h), in tests a network in memory.

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/wire/messages.h"

namespace baton::kv_transfer {

using ChannelId = uint32_t;  // never reused; 0 is invalid

class ControlPort {
 public:
  virtual ~ControlPort() = default;
  // The connection is made in the background; a bad address is an error.
  virtual Result<ChannelId> connect(const std::string& address) = 0;
  // Does not block. An error means that the channel is of no use any more.
  virtual Status send(ChannelId channel, const wire::Message& message) = 0;
  // Forgets a channel, also one that the peer opened.
  virtual void close(ChannelId channel) = 0;
};

}  // namespace baton::kv_transfer
