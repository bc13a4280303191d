#include "common/http/server.h"

#include <netdb.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/http/address.h"
#include "common/http/connection.h"

namespace baton::http {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
using Tcp = asio::ip::tcp;

// Out of file descriptors: wait for some to be closed instead of spinning.
constexpr Duration kAcceptPause = 100ms;
constexpr Duration kAcceptWarningEvery = 10s;
// Beyond the limit a connection gets a 503; beyond this factor of it none, it is just closed.
constexpr size_t kHardLimitFactor = 2;

// Blocks for as long as the system's resolver does; called once, before serving.
Result<Tcp::endpoint> resolve_listen_address(const HostPort& address) {
  ErrorCode ec;
  const asio::ip::address literal = asio::ip::make_address(address.host, ec);
  if (!ec) {
    return Tcp::endpoint(literal, address.port);
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return invalid_argument("cannot listen on " + to_string(address) + ": " +
                            std::string(gai_strerror(error)));
  }
  Tcp::endpoint endpoint;
  std::memcpy(endpoint.data(), found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  endpoint.port(address.port);
  return endpoint;
}

Status listen_error(const HostPort& address, const ErrorCode& ec, const std::string& hint) {
  std::string message = "cannot listen on " + to_string(address) + ": ";
  const std::string remedy = hint.empty() ? "" : "; choose another with " + hint;
  if (ec == asio::error::address_in_use) {
    return unavailable(message + "address already in use" + remedy);
  }
  if (ec.value() == EADDRNOTAVAIL) {
    return invalid_argument(message + "not an address of this machine" + remedy);
  }
  if (ec == asio::error::access_denied) {
    return invalid_argument(message + "not allowed" + remedy);
  }
  return internal_error(message + ec.message());
}

}  // namespace

struct Server::Impl {
  Impl(ServerOptions options, Handler handler) : shared(std::make_shared<ServerShared>()) {
    shared->options = std::move(options);
    shared->handler = std::move(handler);
    const int threads = std::max(1, shared->options.io_threads);
    for (int i = 0; i < threads; ++i) {
      loops.push_back(std::make_shared<IoLoop>());
    }
    acceptor.emplace(loops[0]->context());
    pause.emplace(loops[0]->context());
  }

  Status listen(const HostPort& where) {
    Result<Tcp::endpoint> endpoint = resolve_listen_address(where);
    if (!endpoint.ok()) {
      return endpoint.status();
    }
    ErrorCode ec;
    acceptor->open(endpoint->protocol(), ec);
    if (!ec) {
      acceptor->set_option(Tcp::acceptor::reuse_address(true), ec);
    }
    if (!ec) {
      acceptor->bind(*endpoint, ec);
    }
    if (!ec) {
      acceptor->listen(asio::socket_base::max_listen_connections, ec);
    }
    if (ec) {
      return listen_error(where, ec, shared->options.address_hint);
    }
    const Tcp::endpoint bound = acceptor->local_endpoint(ec);
    address = HostPort{bound.address().to_string(), bound.port()};
    address_text = to_string(address);
    if (bound.address().is_unspecified()) {
      loopback = HostPort{bound.address().is_v6() ? "::1" : "127.0.0.1", bound.port()};
    } else {
      loopback = address;
    }
    return Status();
  }

  void run() {
    for (size_t i = 0; i < loops.size(); ++i) {
      loops[i]->start(shared->options.name.substr(0, 12) + "-" + std::to_string(i));
    }
    loops[0]->post([this] { accept(); });
  }

  // On the thread of loop 0.
  void accept() {
    const std::shared_ptr<IoLoop>& loop = loops[next_loop];
    next_loop = (next_loop + 1) % loops.size();
    acceptor->async_accept(loop->context(), [this, loop](const ErrorCode& ec, Tcp::socket socket) {
      if (ec == asio::error::operation_aborted || !acceptor->is_open()) {
        return;
      }
      if (ec) {
        warn_of_accept(ec);
        accept_later();
        return;
      }
      welcome(loop, std::move(socket));
      accept();
    });
  }

  // It is tried again ten times a second.
  void warn_of_accept(const ErrorCode& ec) {
    ++accept_failures;
    const TimePoint now = std::chrono::steady_clock::now();
    if (now >= next_accept_warning) {
      next_accept_warning = now + kAcceptWarningEvery;
      log_warn("cannot accept a connection", {{"address", address_text},
                                              {"error", ec.message()},
                                              {"times", std::exchange(accept_failures, 0)}});
    }
  }

  void accept_later() {
    pause->expires_after(kAcceptPause);
    pause->async_wait([this](const ErrorCode& cancelled) {
      if (!cancelled) {
        accept();
      }
    });
  }

  void welcome(const std::shared_ptr<IoLoop>& loop, Tcp::socket socket) {
    const size_t count = shared->count.add();
    const size_t limit = shared->options.max_connections;
    if (count > limit * kHardLimitFactor) {
      shared->count.remove();
      return;  // the socket closes itself
    }
    auto connection = std::make_shared<Connection>(loop, shared, std::move(socket));
    const bool posted = loop->post([loop, connection, over_limit = count > limit] {
      loop->connections().insert(connection);
      connection->start(over_limit);
    });
    if (!posted) {
      shared->count.remove();
    }
  }

  // Connections that the kernel has made already: closing the listener would reset them.
  void take_waiting() {
    ErrorCode ec;
    acceptor->non_blocking(true, ec);
    for (size_t taken = 0; !ec && taken < shared->options.max_connections; ++taken) {
      const std::shared_ptr<IoLoop>& loop = loops[taken % loops.size()];
      Tcp::socket socket(loop->context());
      acceptor->accept(socket, ec);
      if (!ec) {
        welcome(loop, std::move(socket));
      }
    }
  }

  void stop_accepting() {
    shared->draining = true;
    if (std::exchange(accepting_stopped, true)) {
      return;
    }
    loops[0]->post([this] {
      take_waiting();
      ErrorCode ec;
      acceptor->close(ec);
      pause->cancel(ec);
      // Behind whatever welcome() posted, so that no connection is missed.
      for (const std::shared_ptr<IoLoop>& loop : loops) {
        loop->drain();
      }
    });
  }

  std::shared_ptr<ServerShared> shared;
  std::vector<std::shared_ptr<IoLoop>> loops;
  std::optional<Tcp::acceptor> acceptor;    // thread of loop 0
  std::optional<asio::steady_timer> pause;  // thread of loop 0
  size_t next_loop = 0;                     // thread of loop 0
  int accept_failures = 0;                  // thread of loop 0, since the last warning
  TimePoint next_accept_warning{};          // thread of loop 0
  HostPort address;
  HostPort loopback;
  std::string address_text;
  bool accepting_stopped = false;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() { stop(); }

Result<std::unique_ptr<Server>> Server::start(std::string_view address, ServerOptions options,
                                              Handler handler) {
  BATON_ASSIGN_OR_RETURN(const HostPort where, parse_host_port(address));
  auto impl = std::make_unique<Impl>(std::move(options), std::move(handler));
  BATON_RETURN_IF_ERROR(impl->listen(where));
  impl->run();
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

uint16_t Server::port() const { return impl_->address.port; }
const std::string& Server::address() const { return impl_->address_text; }
std::string Server::url() const {
  return (impl_->shared->options.tls ? "https://" : "http://") + to_string(impl_->loopback);
}
size_t Server::connections() const { return impl_->shared->count.value(); }

void Server::stop_accepting() { impl_->stop_accepting(); }

bool Server::drain(TimePoint deadline) {
  stop_accepting();
  return impl_->shared->count.wait_until_none(deadline);
}

void Server::stop() {
  stop_accepting();
  for (const std::shared_ptr<IoLoop>& loop : impl_->loops) {
    loop->stop();
  }
}

}  // namespace baton::http
