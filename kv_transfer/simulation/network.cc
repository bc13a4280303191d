#include "kv_transfer/simulation/network.h"

#include <algorithm>
#include <utility>

#include "kv_transfer/core.h"

namespace baton::kv_transfer::simulation {

Port::Port(Network& network, std::string address)
    : network_(network), id_(network.next_port_++), address_(std::move(address)) {
  if (!address_.empty()) {
    network_.listening_[address_] = id_;
  }
}

Port::~Port() {
  if (!address_.empty() && network_.listening_[address_] == id_) {
    network_.listening_.erase(address_);
  }
  for (size_t i = 0; i < network_.links_.size(); ++i) {
    Network::Link& link = network_.links_[i];
    if (link.from == id_) {
      network_.hang_up(i, false);
      link.from = 0;
    } else if (link.to == id_) {
      network_.hang_up(i, true);
      link.to = 0;
      link.to_channel = 0;
    }
  }
}

Result<ChannelId> Port::connect(const std::string& address) {
  Network::Link link;
  link.from = id_;
  link.address = address;
  link.from_channel = network_.next_channel_++;
  network_.links_.push_back(std::move(link));
  return network_.links_.back().from_channel;
}

Status Port::send(ChannelId channel, const wire::Message& message) {
  for (size_t i = 0; i < network_.links_.size(); ++i) {
    const Network::Link& link = network_.links_[i];
    if (link.from == id_ && link.from_channel == channel) {
      network_.post(i, false, message);
      return {};
    }
    if (link.to == id_ && link.to_channel == channel) {
      network_.post(i, true, message);
      return {};
    }
  }
  return unavailable("the channel is closed");
}

void Port::close(ChannelId channel) {
  for (size_t i = 0; i < network_.links_.size(); ++i) {
    Network::Link& link = network_.links_[i];
    if (link.from == id_ && link.from_channel == channel) {
      network_.hang_up(i, false);
      link.from = 0;
    } else if (link.to == id_ && link.to_channel == channel) {
      // A listener only forgets: ZeroMQ's router has no way to hang up on one peer.
      link.to = 0;
      link.to_channel = 0;
    }
  }
}

void Network::post(size_t index, bool back, const wire::Message& message) {
  if (dice_.chance(faults_.message_lost)) {
    return;
  }
  Link& link = links_[index];
  const int copies = dice_.chance(faults_.message_doubled) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    Letter letter{.due = clock_.now() + dice_.up_to(faults_.message_delay),
                  .order = next_order_++,
                  .link = index,
                  .back = back,
                  .message = message};
    if (!dice_.chance(faults_.message_overtakes)) {
      letter.due = std::max(letter.due, link.last_due[back ? 1 : 0]);
      link.last_due[back ? 1 : 0] = letter.due;
    }
    if (dice_.chance(faults_.message_unreadable)) {
      letter.message = invalid_argument("the message is cut off");
    }
    letters_.push_back(std::move(letter));
  }
}

// One end of a link is gone; the other is told, unless it has to find out by itself.
void Network::hang_up(size_t index, bool back) {
  const Link& link = links_[index];
  if (dice_.chance(faults_.hang_up_unseen)) {
    return;
  }
  letters_.push_back({.due = std::max(clock_.now(), link.last_due[back ? 1 : 0]),
                      .order = next_order_++,
                      .link = index,
                      .back = back,
                      .hang_up = true,
                      .channel = back ? link.from_channel : link.to_channel,
                      .message = wire::Message{}});
}

uint64_t Network::receiver(const Letter& letter) const {
  const Link& link = links_[letter.link];
  if (letter.back) {
    return link.from;
  }
  if (link.to != 0) {
    return link.to;
  }
  const auto listener = listening_.find(link.address);
  return listener == listening_.end() ? 0 : listener->second;
}

int Port::deliver(TransferCore& core) {
  std::vector<Network::Letter> mine;
  const TimePoint now = network_.clock_.now();
  std::erase_if(network_.letters_, [&](Network::Letter& letter) {
    if (letter.due > now || network_.receiver(letter) != id_) {
      // Nobody listens any more, or a link without its owner.
      return letter.due + 500ms < now && network_.receiver(letter) == 0;
    }
    mine.push_back(std::move(letter));
    return true;
  });
  std::sort(mine.begin(), mine.end(), [](const auto& a, const auto& b) {
    return std::pair(a.due, a.order) < std::pair(b.due, b.order);
  });
  for (Network::Letter& letter : mine) {
    Network::Link& link = network_.links_[letter.link];
    if (letter.hang_up) {
      core.on_channel_lost(letter.channel);
      continue;
    }
    if (!letter.back && link.to != id_) {
      link.to = id_;
      link.to_channel = network_.next_channel_++;
    }
    core.on_message(letter.back ? link.from_channel : link.to_channel, std::move(letter.message));
  }
  return static_cast<int>(mine.size());
}

}  // namespace baton::kv_transfer::simulation
