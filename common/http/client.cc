#include "common/http/client.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "common/base/file_descriptor.h"
#include "common/http/address.h"
#include "common/http/parser.h"
#include "common/http/request_text.h"
#include "common/http/tls_session.h"

namespace baton::http {
namespace {

struct AddressList {
  addrinfo* first = nullptr;
  ~AddressList() {
    if (first != nullptr) {
      freeaddrinfo(first);
    }
  }
};

std::string error_text(int error) { return std::generic_category().message(error); }

}  // namespace

struct Client::Impl {
  ClientOptions options;
  FileDescriptor connection;
  std::string connected_to;         // origin() of `connection`
  std::unique_ptr<TlsSession> tls;  // on `connection`
  std::shared_ptr<const TlsContext> trusted;
  FileDescriptor cancel_event{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<bool> cancelled{false};
  TimePoint deadline;  // of the exchange in progress
  std::string url;     // of the exchange in progress, for messages
  std::array<char, 64 * 1024> buffer;

  Status failure(StatusCode code, const std::string& what) const {
    return {code, url + ": " + what};
  }

  // Waits for `events` on the connection, but not beyond the deadline or `at_most`.
  Status wait(int fd, short events, TimePoint at_most) {
    const TimePoint until = std::min(deadline, at_most);
    while (true) {
      if (cancelled.load()) {
        return failure(StatusCode::kCancelled, "cancelled");
      }
      const Duration left = until - TimePoint(std::chrono::steady_clock::now());
      if (left <= Duration::zero()) {
        return failure(StatusCode::kDeadlineExceeded, "no answer in time");
      }
      const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
      pollfd fds[3] = {
          {fd, events, 0}, {cancel_event.get(), POLLIN, 0}, {options.interrupt_fd, POLLIN, 0}};
      const int n = poll(fds, 3, static_cast<int>(std::min<int64_t>(ms, 60'000)));
      if (n < 0 && errno != EINTR) {
        return failure(StatusCode::kInternal, "poll: " + error_text(errno));
      }
      // Before what has arrived: a fast stream does not put off the interruption.
      if (n > 0 && fds[2].revents != 0) {
        return failure(StatusCode::kCancelled, "interrupted");
      }
      if (n > 0 && fds[0].revents != 0) {
        return Status();
      }
    }
  }

  // 0 when connected, else the error number; a Status when waiting itself failed.
  Result<int> connect_to(const addrinfo& address, FileDescriptor& into) {
    FileDescriptor fd(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.open()) {
      return errno;
    }
    const int one = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
      if (errno != EINPROGRESS) {
        return errno;
      }
      const TimePoint at_most = std::chrono::steady_clock::now() + options.connect_timeout;
      BATON_RETURN_IF_ERROR(wait(fd.get(), POLLOUT, at_most));
      int error = 0;
      socklen_t size = sizeof(error);
      getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) {
        return error;
      }
    }
    into = std::move(fd);
    return 0;
  }

  void disconnect() {
    tls.reset();
    connection.reset();
  }

  Status connect(const Url& target) {
    disconnect();
    const HostPort& server = target.server;
    // The certificate of a server of our own may be replaced meanwhile.
    if (target.tls && (trusted == nullptr || !options.trust.own_certificate.empty())) {
      BATON_ASSIGN_OR_RETURN(trusted, TlsContext::trusting(options.trust));
    }
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    AddressList found;
    const std::string port = std::to_string(server.port);
    const int error = getaddrinfo(server.host.c_str(), port.c_str(), &hints, &found.first);
    if (error != 0) {
      return failure(StatusCode::kUnavailable, gai_strerror(error));
    }
    int last_error = ECONNREFUSED;
    for (const addrinfo* a = found.first; a != nullptr; a = a->ai_next) {
      BATON_ASSIGN_OR_RETURN(last_error, connect_to(*a, connection));
      if (last_error == 0) {
        connected_to = origin(target);
        if (target.tls) {
          tls = std::make_unique<TlsSession>(trusted, connection.get(), server.host);
        }
        return Status();
      }
    }
    return failure(StatusCode::kUnavailable, last_error == ECONNREFUSED
                                                 ? "connection refused; is the server running?"
                                                 : "cannot connect: " + error_text(last_error));
  }

  // What a call on the connection, which never blocks, has done.
  struct Moved {
    size_t bytes = 0;
    short wait_for = 0;  // POLLIN, POLLOUT: nothing can be moved before
    bool ended = false;
    std::string problem{};
  };

  Moved moved_by_tls(const TlsSession::Moved& by_tls) const {
    switch (by_tls.outcome) {
      case TlsSession::Outcome::kDone:
        return {.bytes = by_tls.bytes};
      case TlsSession::Outcome::kWantRead:
        return {.wait_for = POLLIN};
      case TlsSession::Outcome::kWantWrite:
        return {.wait_for = POLLOUT};
      case TlsSession::Outcome::kEnd:
        return {.ended = true};
      case TlsSession::Outcome::kPlainHttp:
      case TlsSession::Outcome::kFailed:
        break;
    }
    return {.problem = tls->problem()};
  }

  static Moved moved_by_socket(ssize_t n, short events) {
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      return {.wait_for = events};
    }
    if (n < 0) {
      return {.problem = error_text(errno)};
    }
    return {.bytes = static_cast<size_t>(n), .ended = n == 0};
  }

  Moved send_some(std::string_view bytes) {
    if (tls) {
      return moved_by_tls(tls->write(bytes));
    }
    return moved_by_socket(::send(connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
                           POLLOUT);
  }

  Moved receive_some() {
    if (tls) {
      return moved_by_tls(tls->read(buffer));
    }
    return moved_by_socket(recv(connection.get(), buffer.data(), buffer.size(), 0), POLLIN);
  }

  Status wait_idle(short events) {
    return wait(connection.get(), events, std::chrono::steady_clock::now() + options.idle_timeout);
  }

  Status send_all(std::string_view bytes) {
    while (!bytes.empty()) {
      const Moved moved = send_some(bytes);
      if (!moved.problem.empty()) {
        return failure(StatusCode::kUnavailable, "cannot send: " + moved.problem);
      }
      bytes.remove_prefix(moved.bytes);
      if (moved.wait_for != 0) {
        BATON_RETURN_IF_ERROR(wait_idle(moved.wait_for));
      }
    }
    return Status();
  }

  // Reads until the response is complete. `received` tells whether anything came at all.
  Status receive(ResponseParser& parser, bool& received) {
    std::string pending;
    short wait_for = POLLIN;
    while (parser.state() == ParseState::kHeader || parser.state() == ParseState::kBody) {
      if (wait_for != 0) {
        BATON_RETURN_IF_ERROR(wait_idle(wait_for));
      }
      const Moved moved = receive_some();
      if (!moved.problem.empty()) {
        return failure(StatusCode::kUnavailable, moved.problem);
      }
      if (moved.wait_for != 0) {
        wait_for = moved.wait_for;
        continue;
      }
      wait_for = tls && tls->pending() ? 0 : POLLIN;
      if (moved.ended) {
        parser.feed_end();
        if (parser.state() == ParseState::kFailed) {
          return failure(StatusCode::kUnavailable, parser.failure().message);
        }
        disconnect();
        return Status();
      }
      received = true;
      pending.append(buffer.data(), moved.bytes);
      pending.erase(0, parser.feed(pending));
    }
    if (parser.stopped()) {
      return failure(StatusCode::kCancelled, "stopped by the reader");
    }
    if (parser.state() == ParseState::kFailed) {
      return failure(StatusCode::kInternal, "not an HTTP answer: " + parser.failure().message);
    }
    return Status();
  }

  Result<Response> exchange(const ClientRequest& request, const ResponseParser::OnHead& on_head,
                            const ResponseParser::OnBody& on_body) {
    url = request.url;
    deadline = std::chrono::steady_clock::now() + options.timeout;
    BATON_ASSIGN_OR_RETURN(const Url target, parse_url(request.url));
    const std::string bytes = encode_request(request, target);
    bool reused = connection.open() && connected_to == origin(target);
    while (true) {
      if (!reused) {
        BATON_RETURN_IF_ERROR(connect(target));
      }
      ResponseParser parser(request.method == "HEAD", on_head, on_body);
      bool received = false;
      Status status = send_all(bytes);
      if (status.ok()) {
        status = receive(parser, received);
      }
      // The server may have closed an idle connection at the moment we chose it.
      if (!status.ok() && reused && !received && status.code() == StatusCode::kUnavailable) {
        reused = false;
        continue;
      }
      if (!status.ok() || !parser.keep_alive()) {
        disconnect();
      }
      if (!status.ok()) {
        return status;
      }
      return std::move(parser.response());
    }
  }
};

Client::Client(ClientOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
}
Client::~Client() = default;

Result<Response> Client::get(std::string_view url) {
  ClientRequest request;
  request.url = url;
  return this->request(request);
}

Result<Response> Client::post(std::string_view url, std::string body,
                              std::string_view content_type) {
  ClientRequest request;
  request.method = "POST";
  request.url = url;
  request.headers.add("Content-Type", std::string(content_type));
  request.body = std::move(body);
  return this->request(request);
}

Result<Response> Client::request(const ClientRequest& request) {
  std::string body;
  bool too_large = false;
  Result<Response> response = impl_->exchange(request, {}, [&](std::string_view bytes) {
    too_large = body.size() + bytes.size() > impl_->options.max_body_bytes;
    if (!too_large) {
      body += bytes;
    }
    return !too_large;
  });
  if (too_large) {
    return resource_exhausted(request.url + ": the answer is larger than " +
                              std::to_string(impl_->options.max_body_bytes) + " bytes");
  }
  if (response.ok()) {
    response->body = std::move(body);
  }
  return response;
}

Result<Response> Client::stream(const ClientRequest& request,
                                const std::function<void(const Response&)>& on_head,
                                const BodyCallback& on_body) {
  return impl_->exchange(request, on_head, on_body);
}

void Client::cancel() {
  impl_->cancelled = true;
  const uint64_t one = 1;
  // Cannot fail in a way that matters: the counter never overflows by a few.
  [[maybe_unused]] const ssize_t written = write(impl_->cancel_event.get(), &one, sizeof(one));
}

}  // namespace baton::http
