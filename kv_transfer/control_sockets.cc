#include "kv_transfer/control_sockets.h"

#include <utility>

namespace baton::kv_transfer {
namespace {

constexpr wire::SocketOptions kLink{.fault_point = FaultPoint::kPeerLink};

}  // namespace

Result<std::unique_ptr<ControlSockets>> ControlSockets::open(wire::Context& context,
                                                             const std::string& listen) {
  std::unique_ptr<ControlSockets> sockets(new ControlSockets(context));
  if (!listen.empty()) {
    BATON_ASSIGN_OR_RETURN(sockets->listener_, wire::Listener::bind(context, listen, kLink));
  }
  return sockets;
}

Result<ChannelId> ControlSockets::connect(const std::string& address) {
  BATON_ASSIGN_OR_RETURN(wire::Connection connection,
                         wire::Connection::connect(context_, address, kLink));
  const ChannelId channel = next_++;
  connections_.emplace(channel, std::move(connection));
  return channel;
}

Status ControlSockets::send(ChannelId channel, const wire::Message& message) {
  if (const auto it = connections_.find(channel); it != connections_.end()) {
    return it->second.send(message);
  }
  if (const auto it = routing_.find(channel); it != routing_.end()) {
    return listener_->send(it->second, message);
  }
  return unavailable("the channel is closed");
}

void ControlSockets::close(ChannelId channel) {
  connections_.erase(channel);
  if (const auto it = routing_.find(channel); it != routing_.end()) {
    channel_by_routing_.erase(it->second);
    routing_.erase(it);
  }
}

// A peer gets a channel by its HELLO; other messages of strangers take no memory.
ChannelId ControlSockets::channel_of(const wire::Received& received) {
  const auto it = channel_by_routing_.find(received.peer);
  if (it != channel_by_routing_.end()) {
    return it->second;
  }
  if (!received.message.ok() || !std::holds_alternative<wire::Hello>(*received.message)) {
    return 0;
  }
  const ChannelId channel = next_++;
  channel_by_routing_[received.peer] = channel;
  routing_[channel] = received.peer;
  return channel;
}

int ControlSockets::receive(const std::function<void(ChannelId, Result<wire::Message>)>& on_message,
                            const std::function<void(ChannelId, const std::string&)>& on_lost) {
  int done = 0;
  if (listener_) {
    while (std::optional<wire::Received> received = listener_->receive()) {
      const ChannelId channel = channel_of(*received);
      on_message(channel, std::move(received->message));
      ++done;
    }
  }
  // The calls may close channels: look each one up anew.
  std::vector<ChannelId> channels;
  channels.reserve(connections_.size());
  for (const auto& [channel, connection] : connections_) {
    channels.push_back(channel);
  }
  for (const ChannelId channel : channels) {
    for (auto it = connections_.find(channel); it != connections_.end();
         it = connections_.find(channel)) {
      std::optional<wire::Received> received = it->second.receive();
      if (!received) {
        break;
      }
      on_message(channel, std::move(received->message));
      ++done;
    }
    const auto it = connections_.find(channel);
    if (it != connections_.end() && it->second.take_disconnected()) {
      const std::string why = it->second.why_failed();  // the call may close the channel
      on_lost(channel, why);
      ++done;
    }
  }
  return done;
}

void ControlSockets::report_refused(TimePoint now) {
  if (listener_) {
    listener_->report_refused(now);
  }
}

void ControlSockets::append_fds(std::vector<int>& fds) const {
  if (listener_) {
    fds.push_back(listener_->poll_fd());
  }
  for (const auto& [channel, connection] : connections_) {
    fds.push_back(connection.poll_fd());
    fds.push_back(connection.monitor_fd());
  }
}

}  // namespace baton::kv_transfer
