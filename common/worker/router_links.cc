#include "common/worker/router_links.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/log.h"

namespace baton::worker {

Result<RouterLinks> RouterLinks::connect(wire::Context& context, const Options& options) {
  RouterLinks links;
  links.options_ = options;
  for (const std::string& address : options.addresses) {
    BATON_ASSIGN_OR_RETURN(wire::Connection connection,
                           wire::Connection::connect(context, address));
    links.links_.push_back({std::move(connection), Incarnation{}, TimePoint{}, false});
  }
  return links;
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
    log_warn("router lost", {{"router", link.connection.address()}});
  }
  forget(link);
}

void RouterLinks::handle(Link& link, wire::Message message) {
  if (const auto* welcome = std::get_if<wire::Welcome>(&message)) {
    if (!welcome->accepted) {
      if (refusal_ != welcome->reason) {
        log_error("router refused this worker",
                  {{"router", link.connection.address()}, {"reason", welcome->reason}});
      }
      refusal_ = welcome->reason;
      if (link.router.value != 0) {
        lose(link);  // it gave this worker up, and with it the runs: register anew
      }
      return;
    }
    refusal_.clear();
    if (link.router != welcome->router) {
      lose(link);  // the router was replaced while the connection came back
      link.router = welcome->router;
      log_info("registered with router", {{"router", link.connection.address()}});
    }
    return;
  }
  if (link.router.value == 0) {
    return;  // requests come after the welcome; anything earlier is of a life that is over
  }
  if (const auto* goodbye = std::get_if<wire::Goodbye>(&message)) {
    if (goodbye->incarnation == link.router) {
      log_info("router left", {{"router", link.connection.address()}});
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
      log_warn("message dropped", {{"router", link.connection.address()},
                                   {"error", received->message.status().message()}});
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

void RouterLinks::tick(TimePoint now, const wire::Heartbeat& heartbeat) {
  for (Link& link : links_) {
    if (link.router.value != 0) {
      // A full queue means that the router does not read; it will call us dead by itself.
      (void)send_on(link, heartbeat).ok();
    } else if (now - link.last_register >= options_.heartbeat) {
      link.last_register = now;
      (void)send_on(link, wire::Register{info_}).ok();
    }
    receive(link);  // the descriptor is edge triggered: look again after every send
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
