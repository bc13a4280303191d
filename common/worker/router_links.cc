#include "common/worker/router_links.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/log.h"

namespace baton::worker {
namespace {

constexpr Duration kRemakeAfter = 1s;   // a failed handshake
constexpr Duration kSilence = 10s;      // of an address before it is told of
constexpr Duration kConnectEvery = 1s;  // to addresses without a link
// Both descriptors of each, and a few more, fit into one wait_readable().
constexpr size_t kMaxLinks = 28;

}  // namespace

Result<RouterLinks> RouterLinks::connect(wire::Context& context, const Options& options) {
  BATON_ASSIGN_OR_RETURN(RouterNames names, RouterNames::parse(options.addresses, options.resolver,
                                                               options.resolve_every));
  RouterLinks links(context, std::move(names));
  links.options_ = options;
  BATON_RETURN_IF_ERROR(links.connect_missing());
  return links;
}

// Links to other addresses end with their routers.
void RouterLinks::mark_listed() {
  const std::vector<std::string>& addresses = names_.addresses();
  for (Link& link : links_) {
    const bool was_listed = link.listed;
    link.listed = std::find(addresses.begin(), addresses.end(), link.address) != addresses.end();
    if (was_listed && !link.listed) {
      log_info("router's address is gone", {{"router", link.address}});
    }
  }
}

// A link for each address, as far as there is room.
Status RouterLinks::connect_missing() {
  Status first;
  missing_ = false;
  for (const std::string& address : names_.addresses()) {
    const bool known = std::any_of(links_.begin(), links_.end(),
                                   [&](const Link& link) { return link.address == address; });
    if (known) {
      continue;
    }
    if (links_.size() >= kMaxLinks) {
      missing_ = true;
      continue;
    }
    Result<wire::Connection> connection = wire::Connection::connect(*context_, address);
    if (!connection.ok()) {
      missing_ = true;
      first = first.ok() ? connection.status() : first;
      continue;
    }
    links_.emplace_back(std::move(*connection), address);
  }
  return first;
}

// After links have ended, so that others find room.
void RouterLinks::follow_names(bool changed, TimePoint now) {
  if (!changed && (!missing_ || now < next_connect_)) {
    return;
  }
  next_connect_ = now + kConnectEvery;
  const Status status = connect_missing();
  if (!status.ok() && status.message() != connect_problem_) {
    log_error("no link to a router", {{"error", status.message()}});
  }
  connect_problem_ = status.message();
}

void RouterLinks::forget(Link& link) {
  const Incarnation gone = std::exchange(link.router, Incarnation{});
  link.last_register = TimePoint{};
  if (gone.value != 0) {
    handlers_.on_lost(gone);
  }
}

void RouterLinks::lose(Link& link) {
  if (link.router.value != 0) {
    log_warn("router lost", {{"router", link.address}});
  }
  forget(link);
}

void RouterLinks::handle(Link& link, wire::Message message) {
  if (const auto* welcome = std::get_if<wire::Welcome>(&message)) {
    link.silent_since = TimePoint{};
    if (!welcome->accepted) {
      if (link.router.value != 0) {  // and with the worker its runs
        log_warn("router has given this worker up; it registers again",
                 {{"router", link.address}, {"reason", welcome->reason}});
        lose(link);
      } else if (refusal_ != welcome->reason) {
        log_error("router refused this worker",
                  {{"router", link.address}, {"reason", welcome->reason}});
      }
      refusal_ = welcome->reason;
      return;
    }
    refusal_.clear();
    if (link.router != welcome->router) {
      lose(link);  // the router was replaced while the connection came back
      link.router = welcome->router;
      link.problem.clear();
      link.failures = 0;
      retire_duplicates(link);
      log_info("registered with router", {{"router", link.address}});
    }
    return;
  }
  if (link.router.value == 0) {
    return;  // requests come after the welcome; anything earlier is of a life that is over
  }
  if (const auto* goodbye = std::get_if<wire::Goodbye>(&message)) {
    if (goodbye->incarnation == link.router) {
      log_info("router left", {{"router", link.address}});
      forget(link);  // the connection stays open for its successor
    }
    return;
  }
  handlers_.on_message(std::move(message), link.router);
}

void RouterLinks::receive(Link& link) {
  while (true) {
    link.sent = false;
    std::optional<wire::Received> received = link.connection.receive();
    if (!received) {
      return;
    }
    if (!received->message.ok()) {
      log_warn("message dropped",
               {{"router", link.address}, {"error", received->message.status().message()}});
      continue;
    }
    handle(link, std::move(received->message).value());
  }
}

void RouterLinks::poll() {
  for (Link& link : links_) {
    receive(link);
    if (link.connection.take_disconnected()) {
      lose(link);
    }
  }
}

// Two addresses of one router: it answers to the one that registered last. The others stay silent
// while it is there.
void RouterLinks::retire_duplicates(const Link& newest) {
  for (Link& other : links_) {
    if (&other != &newest && other.router == newest.router) {
      log_warn("two addresses are one router",
               {{"router", newest.address}, {"also", other.address}});
      other.router = Incarnation{};
      other.duplicate_of = newest.router;
    }
  }
}

// After some failures ZeroMQ does not try again, so that the connection is made anew.
void RouterLinks::check_handshake(Link& link, TimePoint now) {
  if (link.connection.failed_handshakes() == 0) {
    return;
  }
  if (link.remake_at == TimePoint{}) {
    link.remake_at = now + kRemakeAfter;
  }
  const std::string why = link.connection.why_failed();
  // The first one may be that of a router about to end.
  if (link.failures + link.connection.failed_handshakes() > 1 && link.problem != why) {
    log_error("router refused the control link", {{"router", link.address}, {"reason", why}});
    link.problem = why;
    refusal_ = why;
  }
  if (now < link.remake_at) {
    return;
  }
  link.failures += link.connection.failed_handshakes();
  link.remake_at = TimePoint{};
  Result<wire::Connection> again = wire::Connection::connect(*context_, link.address);
  if (again.ok()) {
    link.connection = std::move(*again);
    link.last_register = TimePoint{};
  }
}

void RouterLinks::check_silence(Link& link, TimePoint now) {
  if (link.router.value != 0 || link.duplicate_of.value != 0 || !link.problem.empty()) {
    link.silent_since = TimePoint{};
  } else if (link.silent_since == TimePoint{}) {
    link.silent_since = now;
  } else if (now - link.silent_since >= kSilence) {
    link.problem = "no answer";
    log_warn("router does not answer yet", {{"router", link.address}});
  }
}

void RouterLinks::tick(TimePoint now, const wire::Heartbeat& heartbeat) {
  const bool changed = names_.update(now);
  if (changed) {
    mark_listed();
  }
  std::erase_if(links_, [](const Link& link) { return !link.listed && link.router.value == 0; });
  follow_names(changed, now);
  for (Link& link : links_) {
    if (!connected(link.duplicate_of)) {
      link.duplicate_of = Incarnation{};
    }
    if (link.router.value != 0) {
      // A full queue means that the router does not read; it will call us dead by itself.
      (void)send_on(link, heartbeat).ok();
    } else if (link.duplicate_of.value == 0 && now - link.last_register >= options_.heartbeat) {
      link.last_register = now;
      (void)send_on(link, wire::Register{info_}).ok();
    }
    receive(link);  // the descriptor is edge triggered: look again after every send
    check_handshake(link, now);
    check_silence(link, now);
  }
}

Status RouterLinks::send_on(Link& link, const wire::Message& message) {
  link.sent = true;
  return link.connection.send(message);
}

bool RouterLinks::sent_since_poll() const {
  return std::any_of(links_.begin(), links_.end(), [](const Link& link) { return link.sent; });
}

Status RouterLinks::send(Incarnation router, const wire::Message& message) {
  for (Link& link : links_) {
    if (link.router == router && router.value != 0) {
      return send_on(link, message);
    }
  }
  return unavailable("router is not connected");
}

void RouterLinks::send_all(const wire::Message& message) {
  for (Link& link : links_) {
    if (link.router.value != 0) {
      (void)send_on(link, message).ok();
    }
  }
}

std::vector<int> RouterLinks::poll_fds() const {
  std::vector<int> fds;
  for (const Link& link : links_) {
    fds.push_back(link.connection.poll_fd());
    fds.push_back(link.connection.monitor_fd());
  }
  return fds;
}

bool RouterLinks::connected(Incarnation router) const {
  return router.value != 0 && std::any_of(links_.begin(), links_.end(), [router](const Link& link) {
           return link.router == router;
         });
}

int RouterLinks::welcomed() const {
  int count = 0;
  for (const Link& link : links_) {
    count += link.router.value != 0 ? 1 : 0;
  }
  return count;
}

}  // namespace baton::worker
