#pragma once

// The control plane of simulated processes: links between a port that connected and whoever listens
// at an address, as ZeroMQ has them. A message waits its time, may be lost, doubled, overtaken or
// unreadable. When the listening process ends, its end of the link is told, or not, and messages
// that come later reach the next process at that address, on a channel that is new to it.

#include <map>
#include <string>
#include <vector>

#include "kv_transfer/control_port.h"
#include "kv_transfer/simulation/dice.h"
#include "kv_transfer/simulation/faults.h"

namespace baton::kv_transfer {
class TransferCore;
}

namespace baton::kv_transfer::simulation {

class Network;

// The port of one process life.
class Port final : public ControlPort {
 public:
  // `address` is where it listens; empty for one that only connects.
  Port(Network& network, std::string address);
  ~Port() override;

  Result<ChannelId> connect(const std::string& address) override;
  Status send(ChannelId channel, const wire::Message& message) override;
  void close(ChannelId channel) override;

  // Delivers what has arrived; the number of messages and ends of links.
  int deliver(TransferCore& core);

 private:
  Network& network_;
  const uint64_t id_;
  const std::string address_;
};

class Network {
 public:
  Network(const Clock& clock, Dice& dice, const Faults& faults)
      : clock_(clock), dice_(dice), faults_(faults) {}

 private:
  friend class Port;
  struct Link {
    uint64_t from = 0;    // port that connected; 0 when it closed or ended
    std::string address;  // of the other end
    uint64_t to = 0;      // port at the other end, once it has heard something
    ChannelId from_channel = 0;
    ChannelId to_channel = 0;
    TimePoint last_due[2];  // of the messages there, and back
  };
  struct Letter {
    TimePoint due;
    uint64_t order = 0;
    size_t link = 0;
    bool back = false;  // from the listener
    bool hang_up = false;
    ChannelId channel = 0;  // of a hang-up
    Result<wire::Message> message;
  };
  void post(size_t link, bool back, const wire::Message& message);
  void hang_up(size_t link, bool back);
  uint64_t receiver(const Letter& letter) const;

  const Clock& clock_;
  Dice& dice_;
  const Faults& faults_;
  uint64_t next_port_ = 1;
  uint64_t next_order_ = 1;
  ChannelId next_channel_ = 1;
  std::map<std::string, uint64_t> listening_;
  std::vector<Link> links_;
  std::vector<Letter> letters_;
};

}  // namespace baton::kv_transfer::simulation
