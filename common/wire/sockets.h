#pragma once

// ZeroMQ for control messages. A socket belongs to the thread that made it. All sends are
// non-blocking with a bounded queue; all receives are non-blocking: wait on poll_fd() (edge
// triggered: call receive() until it is empty after every wake-up and after every send).
//
// Addresses: tcp://host:port (port 0 or * = any, the bound one is told), ipc://path.

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/wire/messages.h"

namespace baton::wire {

// One per process; its I/O thread serves all sockets, which must be gone before it.
class Context {
 public:
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  void* native() const { return context_; }

 private:
  void* context_;
};

struct SocketOptions {
  int send_queue_messages = 4096;
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

 private:
  Listener() = default;
  void* socket_ = nullptr;
  std::string address_;
};

// DEALER socket: one connection, made and re-made in the background. After a loss of connection
// messages not yet sent may be lost; disconnected() tells.
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
  int monitor_fd() const;
  bool take_disconnected();

 private:
  Connection() = default;
  void* socket_ = nullptr;
  void* monitor_ = nullptr;
  std::string address_;
};

// Waits until one of the descriptors is readable or `deadline`; at most 64 descriptors. Returns the
// number that are ready.
int wait_readable(std::span<const int> fds, TimePoint deadline);

}  // namespace baton::wire
