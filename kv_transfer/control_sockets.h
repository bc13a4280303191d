#pragma once

// The control plane over ZeroMQ: one listener for those who push to us, one connection for each
// peer that we push to. Belongs to the agent's thread.

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/wire/sockets.h"
#include "kv_transfer/control_port.h"

namespace baton::kv_transfer {

class ControlSockets final : public ControlPort {
 public:
  // Without `listen` nobody can push to us.
  static Result<std::unique_ptr<ControlSockets>> open(wire::Context& context,
                                                      const std::string& listen);

  Result<ChannelId> connect(const std::string& address) override;
  Status send(ChannelId channel, const wire::Message& message) override;
  void close(ChannelId channel) override;

  // Hands over all messages that are there, then the channels that broke; the number of both. The
  // calls may use the port.
  int receive(const std::function<void(ChannelId, Result<wire::Message>)>& on_message,
              const std::function<void(ChannelId, const std::string& why)>& on_lost);
  // Logs who was refused. To be called now and then.
  void report_refused(TimePoint now);
  void append_fds(std::vector<int>& fds) const;
  std::string listen_address() const { return listener_ ? listener_->address() : std::string(); }

 private:
  explicit ControlSockets(wire::Context& context) : context_(context) {}
  ChannelId channel_of(const wire::Received& received);

  wire::Context& context_;
  ChannelId next_ = 1;
  std::optional<wire::Listener> listener_;
  std::unordered_map<std::string, ChannelId> channel_by_routing_;
  std::unordered_map<ChannelId, std::string> routing_;  // of peers that connected to us
  std::unordered_map<ChannelId, wire::Connection> connections_;
};

}  // namespace baton::kv_transfer
