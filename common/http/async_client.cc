#include "common/http/async_client.h"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/http/address.h"
#include "common/http/parser.h"
#include "common/http/request_text.h"
#include "common/http/tls_session.h"

namespace baton::http {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr size_t kReadBytes = 16 * 1024;

class Call;

struct Link {
  explicit Link(asio::io_context& io) : socket(io) {}

  tcp::socket socket;
  std::unique_ptr<TlsSession> tls;  // null over http://
};

// What all exchanges share. Outlives them.
struct Shared {
  Shared(AsyncClientOptions o, const Clock& c) : options(std::move(o)), clock(c) {}

  const AsyncClientOptions options;
  const Clock& clock;
  asio::io_context io{1};
  asio::steady_timer run_timer{io};
  Url url;
  std::vector<tcp::endpoint> endpoints;
  std::shared_ptr<const TlsContext> trusted;  // null over http://
  std::vector<Link> idle;                     // the last one used is used first
  std::unordered_map<AsyncClient::ExchangeId, std::shared_ptr<Call>> calls;
  AsyncClient::ExchangeId last_id = 0;
  uint64_t run = 0;  // number of the run_for() in progress
  bool run_over = false;
};

// Whether the server has neither closed an idle connection nor said something out of turn. What is
// sent is never sent a second time: a server that drops requests has to show.
bool still_open(tcp::socket& socket) {
  ErrorCode ec;
  char byte = 0;
  socket.non_blocking(true, ec);
  socket.receive(asio::buffer(&byte, 1), tcp::socket::message_peek, ec);
  return ec == asio::error::would_block || ec == asio::error::try_again;
}

// One exchange. Its pending operations keep it alive.
//
//   start --idle connection--> exchanging --complete, failed, deadline, cancel--> over
//     \--> connecting --connected--^
class Call final : public std::enable_shared_from_this<Call> {
 public:
  Call(Shared& shared, const ClientRequest& request, ExchangeObserver& observer)
      : id_(++shared.last_id),
        shared_(shared),
        observer_(&observer),
        bytes_(encode_request(request, {shared.url.tls, shared.url.server, request.url})),
        head_request_(request.method == "HEAD"),
        url_(origin(shared.url) + request.url),
        link_(shared.io),
        timer_(shared.io) {}

  AsyncClient::ExchangeId id() const { return id_; }

  void start(Duration timeout) {
    end_ = TimePoint(std::chrono::steady_clock::now()) + timeout;
    while (!shared_.idle.empty()) {
      link_ = std::move(shared_.idle.back());
      shared_.idle.pop_back();
      if (still_open(link_.socket)) {
        exchange();
        return;
      }
      link_ = Link(shared_.io);
    }
    connect();
  }

  void finish(StatusCode code, const std::string& what) {
    finish(Status(code, url_ + ": " + what));
  }

  // Ends without a call of the observer.
  void drop() {
    over_ = true;
    timer_.cancel();
    ErrorCode ignored;
    link_.socket.close(ignored);
  }

 private:
  void arm(TimePoint at) {
    timer_.expires_at(std::chrono::steady_clock::time_point(at));
    timer_.async_wait([self = shared_from_this()](const ErrorCode& ec) {
      // A wait that was replaced while its handler was already on its way is not meant.
      if (!ec && !self->over_ && self->timer_.expiry() <= std::chrono::steady_clock::now()) {
        self->finish(StatusCode::kDeadlineExceeded,
                     self->connecting_ ? "no connection in time" : "no complete answer in time");
      }
    });
  }

  void connect() {
    connecting_ = true;
    const TimePoint now = std::chrono::steady_clock::now();
    arm(std::min(end_, now + shared_.options.connect_timeout));
    asio::async_connect(link_.socket, shared_.endpoints,
                        [self = shared_from_this()](const ErrorCode& ec, const tcp::endpoint&) {
                          self->connected(ec);
                        });
  }

  void connected(const ErrorCode& ec) {
    if (over_) {
      return;
    }
    if (ec) {
      finish(StatusCode::kUnavailable, ec == asio::error::connection_refused
                                           ? "connection refused; is the server running?"
                                           : "cannot connect: " + ec.message());
      return;
    }
    connecting_ = false;
    ErrorCode ignored;
    link_.socket.set_option(tcp::no_delay(true), ignored);
    if (shared_.trusted) {
      link_.socket.non_blocking(true, ignored);
      link_.tls = std::make_unique<TlsSession>(shared_.trusted, link_.socket.native_handle(),
                                               shared_.url.server.host);
    }
    exchange();
  }

  void exchange() {
    arm(end_);
    parser_.emplace(
        head_request_,
        [this](const Response& head) {
          if (!over_) {
            observer_->on_head(head);
          }
        },
        [this](std::string_view bytes) {
          return !over_ && observer_->on_body(bytes, read_at_) && !over_;
        });
    written_ = false;
    if (link_.tls) {
      sent_ = 0;
      write_tls();
      read_tls();
      return;
    }
    // A failure shows on the reading side too, where an answer that came before it is not lost.
    asio::async_write(link_.socket, asio::buffer(bytes_),
                      [self = shared_from_this()](const ErrorCode& ec, size_t) {
                        self->written_ = self->written_ || !ec;
                      });
    read();
  }

  void read() {
    link_.socket.async_read_some(asio::buffer(buffer_),
                                 [self = shared_from_this()](const ErrorCode& ec, size_t size) {
                                   if (self->take(ec, size)) {
                                     self->read();
                                   }
                                 });
  }

  // The socket is waited on for what the session wants; false when it wants nothing, but has ended.
  bool wait_tls(TlsSession::Outcome outcome, void (Call::*again)()) {
    const bool reads = outcome == TlsSession::Outcome::kWantRead;
    if (!reads && outcome != TlsSession::Outcome::kWantWrite) {
      return false;
    }
    link_.socket.async_wait(reads ? tcp::socket::wait_read : tcp::socket::wait_write,
                            [self = shared_from_this(), again](const ErrorCode& ec) {
                              if (!ec && !self->over_) {
                                (self.get()->*again)();
                              }
                            });
    return true;
  }

  void write_tls() {
    while (!over_ && sent_ < bytes_.size()) {
      const TlsSession::Moved moved = link_.tls->write(std::string_view(bytes_).substr(sent_));
      sent_ += moved.bytes;
      if (moved.outcome != TlsSession::Outcome::kDone) {
        // As above: what is wrong shows on the reading side.
        wait_tls(moved.outcome, &Call::write_tls);
        return;
      }
    }
    written_ = true;
  }

  void read_tls() {
    while (!over_) {
      const TlsSession::Moved moved = link_.tls->read(buffer_);
      if (moved.outcome == TlsSession::Outcome::kDone) {
        if (!take({}, moved.bytes)) {
          return;
        }
      } else if (wait_tls(moved.outcome, &Call::read_tls)) {
        return;
      } else if (moved.outcome == TlsSession::Outcome::kEnd) {
        take(asio::error::eof, 0);
        return;
      } else {
        finish(StatusCode::kUnavailable, link_.tls->problem());
        return;
      }
    }
  }

  // True when more is to be read.
  bool take(const ErrorCode& ec, size_t size) {
    if (over_) {
      return false;
    }
    read_at_ = shared_.clock.now();
    if (ec) {
      connection_ended(ec);
      return false;
    }
    std::string_view input(buffer_.data(), size);
    if (!pending_.empty()) {
      pending_ += input;
      input = pending_;
    }
    const size_t used = parser_->feed(input);
    if (over_) {
      return false;  // cancelled by a call from inside
    }
    // `input` may lie in `pending_`: the rest is taken before that is replaced.
    std::string rest(input.substr(used));
    pending_ = std::move(rest);
    switch (parser_->state()) {
      case ParseState::kHeader:
      case ParseState::kBody:
        return true;
      case ParseState::kComplete:
        finish(Status());
        return false;
      case ParseState::kFailed:
        if (parser_->stopped()) {
          finish(StatusCode::kCancelled, "stopped by the reader");
        } else {
          finish(StatusCode::kInternal, "not an HTTP answer: " + parser_->failure().message);
        }
        return false;
    }
    return false;
  }

  void connection_ended(const ErrorCode& ec) {
    if (ec != asio::error::eof) {
      finish(StatusCode::kUnavailable, ec.message());
      return;
    }
    parser_->feed_end();
    if (over_) {
      return;
    }
    if (parser_->state() == ParseState::kFailed) {
      finish(StatusCode::kUnavailable, parser_->failure().message);
    } else {
      finish(Status());
    }
  }

  void finish(const Status& status) {
    if (over_) {
      return;
    }
    const std::shared_ptr<Call> alive = shared_from_this();
    const bool reusable = status.ok() && written_ && pending_.empty() && parser_->keep_alive() &&
                          link_.socket.is_open();
    if (reusable) {
      shared_.idle.push_back(std::move(link_));
      link_ = Link(shared_.io);
    }
    drop();
    shared_.calls.erase(id_);
    observer_->on_end(status, shared_.clock.now());
  }

  const AsyncClient::ExchangeId id_;
  Shared& shared_;
  ExchangeObserver* const observer_;
  const std::string bytes_;
  const bool head_request_;
  const std::string url_;  // for messages
  Link link_;
  asio::steady_timer timer_;
  TimePoint end_;
  TimePoint read_at_;
  std::optional<ResponseParser> parser_;
  std::array<char, kReadBytes> buffer_;
  std::string pending_;  // received, but not enough for the parser to go on
  bool connecting_ = false;
  bool written_ = false;
  size_t sent_ = 0;  // of bytes_, over TLS
  bool over_ = false;
};

}  // namespace

struct AsyncClient::Impl {
  Impl(AsyncClientOptions options, const Clock& clock) : shared(std::move(options), clock) {}
  Shared shared;
};

Result<std::unique_ptr<AsyncClient>> AsyncClient::create(std::string_view url,
                                                         AsyncClientOptions options,
                                                         const Clock& clock) {
  BATON_ASSIGN_OR_RETURN(Url parsed, parse_url(url));
  auto impl = std::make_unique<Impl>(std::move(options), clock);
  if (parsed.tls) {
    BATON_ASSIGN_OR_RETURN(impl->shared.trusted, TlsContext::trusting(impl->shared.options.trust));
  }
  ErrorCode ec;
  tcp::resolver resolver(impl->shared.io);
  const auto found = resolver.resolve(parsed.server.host, std::to_string(parsed.server.port), ec);
  if (ec) {
    return unavailable(std::string(url) + ": " + ec.message());
  }
  for (const auto& entry : found) {
    impl->shared.endpoints.push_back(entry.endpoint());
  }
  impl->shared.url = std::move(parsed);
  return std::unique_ptr<AsyncClient>(new AsyncClient(std::move(impl)));
}

AsyncClient::AsyncClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

AsyncClient::~AsyncClient() {
  Shared& shared = impl_->shared;
  for (auto& [id, call] : shared.calls) {
    call->drop();
  }
  shared.calls.clear();
  shared.idle.clear();
  shared.run_timer.cancel();
  // Handlers of what was just aborted hold their exchanges: they run while all they refer to lives.
  shared.io.restart();
  shared.io.poll();
}

Result<AsyncClient::ExchangeId> AsyncClient::start(const ClientRequest& request, Duration timeout,
                                                   ExchangeObserver& observer) {
  Shared& shared = impl_->shared;
  if (shared.calls.size() >= shared.options.max_exchanges) {
    return resource_exhausted("more than " + std::to_string(shared.options.max_exchanges) +
                              " requests at once");
  }
  auto call = std::make_shared<Call>(shared, request, observer);
  shared.calls.emplace(call->id(), call);
  call->start(timeout);
  return call->id();
}

void AsyncClient::cancel(ExchangeId id) {
  const auto found = impl_->shared.calls.find(id);
  if (found != impl_->shared.calls.end()) {
    const std::shared_ptr<Call> call = found->second;
    call->finish(StatusCode::kCancelled, "cancelled");
  }
}

void AsyncClient::cancel_all() {
  std::vector<ExchangeId> ids;
  for (const auto& [id, call] : impl_->shared.calls) {
    ids.push_back(id);
  }
  for (const ExchangeId id : ids) {
    cancel(id);
  }
}

void AsyncClient::run_for(Duration duration) {
  Shared& shared = impl_->shared;
  shared.io.restart();
  if (duration <= Duration::zero()) {
    shared.io.poll();
    return;
  }
  const uint64_t run = ++shared.run;
  shared.run_over = false;
  // A timer and not io_context::run_for(), which rounds up to milliseconds.
  shared.run_timer.expires_after(duration);
  shared.run_timer.async_wait([&shared, run](const ErrorCode& ec) {
    shared.run_over = shared.run_over || (!ec && run == shared.run);
  });
  while (!shared.run_over) {
    shared.io.run_one();
  }
}

void AsyncClient::interrupt() { impl_->shared.run_over = true; }

size_t AsyncClient::exchanges() const { return impl_->shared.calls.size(); }

size_t AsyncClient::connections() const {
  return impl_->shared.calls.size() + impl_->shared.idle.size();
}

}  // namespace baton::http
