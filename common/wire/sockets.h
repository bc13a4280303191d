#pragma once

// ZeroMQ for control messages. A socket belongs to the thread that made it. All sends are
// non-blocking with a bounded queue; all receives are non-blocking: wait on poll_fd() (edge
// triggered: call receive() until it is empty after every wake-up and after every send).
//
// Addresses: tcp://host:port (port 0 or * = any, the bound one is told), ipc://path. In a context
// with a cluster key every socket is encrypted and takes members of the cluster only; a connection
// whose other end has another key, or none, never carries a message.

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/wire/admission.h"
#include "common/wire/cluster_key.h"
#include "common/wire/messages.h"
#include "common/wire/monitor.h"
#include "common/wire/send_faults.h"

namespace baton::wire {

// One per process; its I/O thread serves all sockets, which must be gone before it.
class Context {
 public:
  explicit Context(const std::optional<ClusterKey>& key = std::nullopt);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  void* native() const { return context_; }
  const std::optional<ClusterKey>& key() const { return key_; }
  // Disturbs the sockets that are made from now on, in builds with BATON_FAULTS; elsewhere only an
  // empty seed (no faults) is good. `process`: the worker's name.
  Status start_faults(std::string_view seed, std::string_view process, Random& random);
  FaultPlan* faults() const { return faults_.get(); }

 private:
  void* context_;
  std::unique_ptr<FaultPlan> faults_;
  const std::optional<ClusterKey> key_;
  std::optional<Admission> admission_;
};

struct SocketOptions {
  int send_queue_messages = 4096;
  FaultPoint fault_point = FaultPoint::kRouterLink;  // what may happen to what it sends
};

struct Received {
  std::string peer;  // routing id on a Listener; empty on a Connection
  Result<Message> message;
};

// ROUTER socket: many peers, each known by an opaque routing id made at its connection.
class Listener {
 public:
  // Error: address in use (named), not an address.
  static Result<Listener> bind(Context& context, const std::string& address,
                               const SocketOptions& options = {});
  ~Listener();
  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;

  const std::string& address() const { return address_; }  // with the real port
  int poll_fd() const;
  std::optional<Received> receive();
  // unavailable when the peer is gone, resource_exhausted when its queue is full.
  Status send(const std::string& peer, const Message& message);
  // Logs peers whose handshake failed since the last call: the first at once, then their number at
  // most every ten seconds. To be called now and then.
  void report_refused(TimePoint now);

 private:
  Listener() = default;
  Status send_frames(const std::string& peer, const std::string& body);
  Status send_due(const std::string& peer);
  void* socket_ = nullptr;
  SendFaults faults_;
  Monitor monitor_;
  std::string address_;
  bool keyed_ = false;
  int refused_ = 0;  // not logged yet
  Handshake how_refused_ = Handshake::kNone;
  TimePoint next_report_{};
};

// DEALER socket: one connection, made and re-made in the background. After a loss of connection
// messages not yet sent may be lost; take_disconnected() tells.
class Connection {
 public:
  static Result<Connection> connect(Context& context, const std::string& address,
                                    const SocketOptions& options = {});
  ~Connection();
  Connection(Connection&&) noexcept;
  Connection& operator=(Connection&&) noexcept;

  const std::string& address() const { return address_; }
  int poll_fd() const;
  std::optional<Received> receive();
  Status send(const Message& message);

  // A second descriptor that becomes readable when the connection breaks (the kernel closes a dead
  // process's sockets within milliseconds, zombies included), and whether it has since the last
  // call.
  int monitor_fd() const { return monitor_.poll_fd(); }
  bool take_disconnected();
  // Handshakes that have failed one after the other, as of the last take_disconnected(), and why
  // the last one did ("cluster key does not match ..."). After some failures ZeroMQ does not try
  // again: make a new connection.
  int failed_handshakes() const { return failed_handshakes_; }
  const std::string& why_failed() const { return why_failed_; }

 private:
  Connection() = default;
  Status send_due();
  void* socket_ = nullptr;
  SendFaults faults_;
  Monitor monitor_;
  std::string address_;
  bool keyed_ = false;
  int failed_handshakes_ = 0;
  std::string why_failed_;
};

// Waits until one of the descriptors is readable or `deadline`; at most 64 descriptors. Returns the
// number that are ready.
int wait_readable(std::span<const int> fds, TimePoint deadline);

}  // namespace baton::wire
