#pragma once

// A worker's connections to the routers of its configuration: it registers with each until it is
// welcomed, sends heartbeats, and learns when one is gone. Names are resolved again and again: a
// new address gets a link, the link to one that has disappeared is closed once its router is lost.
// Owned and used by the worker loop's thread.

#include <functional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "common/wire/sockets.h"
#include "common/worker/router_names.h"

namespace baton::worker {

class RouterLinks {
 public:
  struct Options {
    std::vector<std::string> addresses;  // tcp://host:port, ipc://path
    Duration heartbeat = 200ms;
    Resolver* resolver = nullptr;  // outlives the links; null when no address is a name
    Duration resolve_every = 5s;
  };
  static Result<RouterLinks> connect(wire::Context& context, const Options& options);

  // Called from poll(): a request of a router; a router that is gone (its requests have no reader).
  struct Handlers {
    std::function<void(wire::Message, Incarnation router)> on_message;
    std::function<void(Incarnation router)> on_lost;
  };
  void set_handlers(Handlers handlers) { handlers_ = std::move(handlers); }
  void set_info(wire::WorkerInfo info) { info_ = std::move(info); }  // before the first tick

  // Receives what is there, without blocking.
  void poll();
  // Registers where needed, and sends `heartbeat` to every router that welcomed us.
  void tick(TimePoint now, const wire::Heartbeat& heartbeat);
  // To the router of that incarnation; unavailable when it is not connected.
  Status send(Incarnation router, const wire::Message& message);
  void send_all(const wire::Message& message);

  // Something was sent since poll() last found nothing. The descriptors are edge triggered and a
  // send may have swallowed the edge: poll() again before waiting on them.
  bool sent_since_poll() const;
  std::vector<int> poll_fds() const;
  bool connected(Incarnation router) const;
  int welcomed() const;  // routers that accepted us
  // Why the last router that refused us did; empty when none did.
  const std::string& refusal() const { return refusal_; }

 private:
  struct Link {
    Link(wire::Connection c, std::string a) : connection(std::move(c)), address(std::move(a)) {}

    wire::Connection connection;
    std::string address;
    Incarnation router;  // 0 until welcomed
    TimePoint last_register{};
    bool sent = false;         // since the last receive() that found nothing
    bool listed = true;        // still an address of ours
    Incarnation duplicate_of;  // its router is reached over a newer link
    TimePoint remake_at{};     // after a failed handshake
    int failures = 0;          // of handshakes, over all its connections
    std::string problem;       // logged
    TimePoint silent_since{};  // for the line that says that nobody answers
  };
  RouterLinks(wire::Context& context, RouterNames names)
      : context_(&context), names_(std::move(names)) {}
  void mark_listed();
  Status connect_missing();  // the first error of several
  void follow_names(bool changed, TimePoint now);
  Status send_on(Link& link, const wire::Message& message);
  void receive(Link& link);
  void handle(Link& link, wire::Message message);
  void forget(Link& link);
  void lose(Link& link);  // the same, with a warning: it did not say goodbye
  void retire_duplicates(const Link& newest);
  void check_handshake(Link& link, TimePoint now);
  void check_silence(Link& link, TimePoint now);

  wire::Context* context_;
  RouterNames names_;
  Options options_;
  Handlers handlers_;
  wire::WorkerInfo info_;
  std::vector<Link> links_;
  std::string refusal_;
  bool missing_ = false;  // an address has no link
  TimePoint next_connect_{};
  std::string connect_problem_;  // logged
};

}  // namespace baton::worker
