#include "common/http/connection.h"

#include <pthread.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "common/http/address.h"
#include "common/http/error.h"

namespace baton::http {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

// Bytes of later requests that are held while one is handled; then reading pauses.
constexpr size_t kMaxPipelinedBytes = 256 * 1024;
// After a refusal the rest of the request is read and dropped, so that the client gets to read the
// answer before a reset does away with it.
constexpr Duration kLingerTime = 2s;
// A connection that was made before a drain began, for its request to arrive.
constexpr Duration kLateRequest = 500ms;
constexpr size_t kMaxLingerBytes = 64 * 1024 * 1024;
constexpr size_t kJoinedBytes = 1400;
// Reads of one connection before others on the thread get their turn.
constexpr int kReadsPerTurn = 8;
constexpr size_t kKeptInputCapacity = 4 * 1024;
constexpr Duration kBodyTimePerUnit = 1s;
constexpr size_t kBodyUnit = 64 * 1024;

}  // namespace

size_t ConnectionCount::add() {
  MutexLock lock(mutex_);
  return ++count_;
}

void ConnectionCount::remove() {
  {
    MutexLock lock(mutex_);
    --count_;
  }
  none_.notify_all();
}

size_t ConnectionCount::value() const {
  MutexLock lock(mutex_);
  return count_;
}

bool ConnectionCount::wait_until_none(TimePoint deadline) {
  MutexLock lock(mutex_);
  while (count_ > 0) {
    if (!none_.wait_until(mutex_, deadline)) {
      break;
    }
  }
  return count_ == 0;
}

IoLoop::IoLoop() : context_(1) {}

void IoLoop::start(const std::string& thread_name) {
  guard_.emplace(context_.get_executor());
  thread_ = std::thread([this] { context_.run(); });
  thread_id_ = thread_.get_id();
  pthread_setname_np(thread_.native_handle(), thread_name.substr(0, 15).c_str());
}

bool IoLoop::post(std::function<void()> task) {
  // Under the lock, so that nothing is queued behind stop(): it would keep its owner alive for
  // good.
  MutexLock lock(mutex_);
  if (stopped_) {
    return false;
  }
  asio::post(context_, std::move(task));
  return true;
}

void IoLoop::drain() {
  post([this] {
    const auto all = connections_;  // drain() removes from the set
    for (const std::shared_ptr<Connection>& connection : all) {
      connection->drain();
    }
  });
}

void IoLoop::stop() {
  post([this] {
    const auto all = connections_;
    for (const std::shared_ptr<Connection>& connection : all) {
      connection->close();
    }
  });
  {
    MutexLock lock(mutex_);
    stopped_ = true;
  }
  guard_.reset();
  if (thread_.joinable()) {
    thread_.join();
  }
}

Connection::Connection(std::shared_ptr<IoLoop> loop, std::shared_ptr<ServerShared> shared,
                       asio::ip::tcp::socket socket)
    : loop_(std::move(loop)),
      shared_(std::move(shared)),
      socket_(std::move(socket)),
      timer_(loop_->context()) {}

Connection::~Connection() = default;

void Connection::start(bool over_limit) {
  ErrorCode ec;
  socket_.non_blocking(true, ec);
  socket_.set_option(asio::ip::tcp::no_delay(true), ec);
  const asio::ip::tcp::endpoint peer = socket_.remote_endpoint(ec);
  if (ec) {
    close();  // gone already
    return;
  }
  peer_address_ = to_string(HostPort{peer.address().to_string(), peer.port()});
  if (shared_->options.tls && over_limit) {
    close();  // a handshake costs more than the limit is there to save
  } else if (shared_->options.tls) {
    tls_ = std::make_unique<TlsSession>(shared_->options.tls->current(), socket_.native_handle());
    set_deadline(shared_->options.header_timeout);
  } else if (over_limit) {
    refuse(503, "too many connections");
  } else {
    become_idle();
  }
  wait_readable();
}

void Connection::drain() {
  switch (state_) {
    case State::kIdle:
      drain_idle();
      break;
    case State::kLingering:
      close();
      break;
    case State::kHandling:
      exchange_->close_after();
      break;
    case State::kReading:  // handle_request() looks at the flag
    case State::kRefusing:
    case State::kClosed:
      break;
  }
}

// A request that is under way already is answered, not reset: on a new connection one is sure to
// come, on another only if its bytes are here.
void Connection::drain_idle() {
  ErrorCode ec;
  if (fresh_ || socket_.available(ec) > 0) {
    set_deadline(kLateRequest);
  } else {
    close();
  }
}

void Connection::close() {
  if (state_ == State::kClosed) {
    return;
  }
  const std::shared_ptr<Connection> self = shared_from_this();
  state_ = State::kClosed;
  ErrorCode ec;
  socket_.close(ec);
  clear_deadline();
  timer_.cancel(ec);
  output_.clear();
  loop_->connections().erase(self);
  if (const std::shared_ptr<Exchange> exchange = std::exchange(exchange_, nullptr)) {
    exchange->closed();
  }
  shared_->count.remove();
}

// ---- reading

void Connection::wait_readable() {
  if (reading_ || peer_done_ || state_ == State::kClosed || input_.size() >= kMaxPipelinedBytes) {
    return;
  }
  reading_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this()](const ErrorCode& ec) {
                       self->reading_ = false;
                       if (!ec) {
                         self->on_readable();
                       }
                     });
}

void Connection::on_readable() {
  for (int i = 0; i < kReadsPerTurn && read_some(); ++i) {
  }
  wait_readable();
}

size_t Connection::receive(std::span<char> into, ErrorCode& ec) {
  if (!tls_) {
    return socket_.read_some(asio::buffer(into.data(), into.size()), ec);
  }
  const bool greeting = !tls_->established();
  const TlsSession::Moved moved = tls_->read(into);
  if (greeting && tls_->established() && state_ == State::kIdle) {
    become_idle();
  }
  switch (moved.outcome) {
    case TlsSession::Outcome::kDone:
      ec.clear();
      break;
    case TlsSession::Outcome::kWantWrite:  // only the handshake writes here
      socket_.async_wait(asio::ip::tcp::socket::wait_write,
                         [self = shared_from_this()](const ErrorCode& error) {
                           if (!error) {
                             self->on_readable();
                           }
                         });
      ec = asio::error::would_block;
      break;
    case TlsSession::Outcome::kWantRead:
      ec = asio::error::would_block;
      break;
    case TlsSession::Outcome::kEnd:
      ec = asio::error::eof;
      break;
    case TlsSession::Outcome::kPlainHttp:
    case TlsSession::Outcome::kFailed:
      refuse_handshake(moved.outcome, ec);
      break;
  }
  return moved.bytes;
}

// What is still to be said is said without TLS.
void Connection::refuse_handshake(TlsSession::Outcome outcome, ErrorCode& ec) {
  ec = asio::error::connection_reset;
  if (state_ != State::kIdle || tls_->established()) {
    return;
  }
  tls_.reset();
  ec = asio::error::would_block;
  if (outcome == TlsSession::Outcome::kPlainHttp) {
    refuse(400, "this port speaks TLS; use https://");
  } else {
    linger();  // the alert that names the reason is sent
  }
}

size_t Connection::transmit(std::string_view bytes, ErrorCode& ec) {
  if (!tls_) {
    return socket_.write_some(asio::buffer(bytes.data(), bytes.size()), ec);
  }
  const TlsSession::Moved moved = tls_->write(bytes);
  if (moved.outcome == TlsSession::Outcome::kDone) {
    ec.clear();
  } else if (moved.outcome == TlsSession::Outcome::kWantWrite) {
    ec = asio::error::would_block;
  } else {
    ec = asio::error::connection_reset;
  }
  return moved.bytes;
}

// False when there is nothing more to read now.
bool Connection::read_some() {
  if (state_ == State::kClosed || input_.size() >= kMaxPipelinedBytes) {
    return false;
  }
  auto& scratch = loop_->scratch();
  ErrorCode ec;
  const size_t n = receive(scratch, ec);
  if (ec == asio::error::would_block || ec == asio::error::try_again) {
    return false;
  }
  if (ec) {
    // A client that has sent its last byte is taken as gone, unless its answer is on its way out.
    peer_done_ = ec == asio::error::eof;
    if (peer_done_) {
      take_output();
    }
    if (!peer_done_ || !(state_ == State::kRefusing || response_taken_)) {
      close();
    }
    return false;
  }
  if (state_ == State::kRefusing || state_ == State::kLingering) {
    lingered_bytes_ += n;
    if (lingered_bytes_ > kMaxLingerBytes) {
      close();
    }
    return state_ != State::kClosed;
  }
  input_.append(scratch.data(), n);
  process_input();
  return state_ != State::kClosed && n == scratch.size();
}

void Connection::process_input() {
  // One request after the other: a response that is ready at once leads back here by the loop, not
  // by recursion.
  while (!input_.empty() && (state_ == State::kIdle || state_ == State::kReading)) {
    const size_t before = input_.size();
    feed();
    if (state_ == State::kReading && parsed_ == ParseState::kComplete) {
      handle_request();
    } else if (input_.size() == before) {
      break;
    }
  }
  if (input_.empty() && input_.capacity() > kKeptInputCapacity) {
    std::string().swap(input_);
  }
}

void Connection::feed() {
  if (!parser_) {
    const ServerOptions& options = shared_->options;
    parser_.emplace(RequestParser::Limits{options.max_header_bytes, options.max_target_bytes,
                                          options.max_body_bytes});
    parsed_ = ParseState::kHeader;
    body_received_ = 0;
  }
  const size_t taken = parser_->feed(input_);
  input_.erase(0, taken);
  const ParseState previous = std::exchange(parsed_, parser_->state());
  if (parsed_ == ParseState::kFailed) {
    refuse(parser_->failure().http_status, parser_->failure().message);
    return;
  }
  if (state_ == State::kIdle && (!input_.empty() || parsed_ != ParseState::kHeader)) {
    state_ = State::kReading;
    set_deadline(shared_->options.header_timeout);
  }
  if (parsed_ != ParseState::kBody) {
    return;
  }
  if (previous == ParseState::kHeader) {
    if (parser_->expects_continue() && input_.empty()) {
      output_.push_back("HTTP/1.1 100 Continue\r\n\r\n");
      flush();
      if (state_ == State::kClosed) {
        return;
      }
    }
  } else {
    body_received_ += taken;
  }
  set_deadline(shared_->options.body_timeout + kBodyTimePerUnit * (body_received_ / kBodyUnit));
}

// ---- handling

Response Connection::own_answer(Response response, const Request& request) const {
  if (shared_->options.decorate) {
    shared_->options.decorate(request, response.headers);
  }
  return response;
}

Response Connection::abandoned_response() {
  return own_answer(error_response(internal_error("the request was dropped without an answer")),
                    Request());
}

void Connection::handle_request() {
  Request request = std::move(parser_->request());
  const bool keep_alive = parser_->keep_alive() && !shared_->draining.load();
  parser_.reset();
  request.peer_address = peer_address_;
  state_ = State::kHandling;
  fresh_ = false;
  clear_deadline();
  response_taken_ = false;

  Exchange::Setup setup;
  setup.http_minor = request.http_minor;
  setup.head_request = request.method == "HEAD";
  setup.keep_alive = keep_alive;
  setup.max_buffered_bytes = shared_->options.max_buffered_bytes;
  exchange_ = std::make_shared<Exchange>(std::move(setup), weak_from_this());

  dispatching_ = true;
  shared_->handler(std::move(request), make_responder(exchange_));
  dispatching_ = false;
  take_output();
}

void Connection::refuse(int http_status, const std::string& message) {
  ApiError error;
  error.http_status = http_status;
  error.message = message;
  error.type = http_status == 503   ? "unavailable_error"
               : http_status == 408 ? "timeout_error"
                                    : "invalid_request_error";
  const Request nothing;
  const Request& request = parser_ ? parser_->request() : nothing;
  const Response response = own_answer(error_response(error), request);
  state_ = State::kRefusing;
  parsed_ = ParseState::kFailed;
  input_.clear();
  const WireForm form{1, request.method == "HEAD", false, WireForm::Body::kLength};
  output_.push_back(encode_head(response.status, response.headers, form, response.body.size()) +
                    (form.head_only ? std::string() : response.body));
  set_deadline(shared_->options.write_timeout);
  flush();
}

// ---- writing

void Connection::wake() {
  if (loop_->on_thread() && dispatching_) {
    return;  // handle_request() takes the output when the handler returns
  }
  if (wake_posted_.exchange(true)) {
    return;
  }
  loop_->post([self = shared_from_this()] { self->on_output(); });
}

void Connection::on_output() {
  take_output();
  // The response may have made room for requests that wait in the input.
  if (state_ == State::kIdle) {
    process_input();
  }
  wait_readable();
}

void Connection::take_output() {
  // Before the take: a piece that is queued after it wakes again.
  wake_posted_.store(false);
  if (state_ != State::kHandling || exchange_ == nullptr) {
    return;
  }
  Exchange::Output taken = exchange_->take();
  if (taken.broken) {
    close();
    return;
  }
  for (std::string& piece : taken.pieces) {
    queue(std::move(piece));
  }
  if (taken.complete && !response_taken_) {
    response_taken_ = true;
    keep_alive_ = taken.keep_alive;
  }
  flush();
}

// A piece is an event. Events that are ready at the same time leave together as long as they fit a
// segment of Ethernet: whole ones arrive, since clients exist that trim every read.
void Connection::queue(std::string piece) {
  const bool untouched = output_.size() > 1 || (output_.size() == 1 && output_offset_ == 0);
  if (untouched && output_.back().size() + piece.size() <= kJoinedBytes) {
    output_.back() += piece;
  } else {
    output_.push_back(std::move(piece));
  }
}

void Connection::flush() {
  if (writing_ || state_ == State::kClosed) {
    return;
  }
  while (!output_.empty()) {
    std::string& piece = output_.front();
    ErrorCode ec;
    const size_t n = transmit(std::string_view(piece).substr(output_offset_), ec);
    if (ec == asio::error::would_block || ec == asio::error::try_again) {
      wait_writable();
      return;
    }
    if (ec) {
      close();
      return;
    }
    output_offset_ += n;
    if (exchange_ != nullptr) {
      exchange_->sent(n);
    }
    if (output_offset_ == piece.size()) {
      output_.pop_front();
      output_offset_ = 0;
    }
  }
  if (state_ == State::kRefusing) {
    linger();
  } else if (state_ == State::kHandling) {
    clear_deadline();
    if (response_taken_) {
      response_done(keep_alive_);
    }
  }
}

void Connection::wait_writable() {
  writing_ = true;
  set_deadline(shared_->options.write_timeout);
  socket_.async_wait(asio::ip::tcp::socket::wait_write,
                     [self = shared_from_this()](const ErrorCode& error) {
                       self->writing_ = false;
                       if (!error) {
                         self->flush();
                         self->on_output();
                       }
                     });
}

void Connection::response_done(bool keep_alive) {
  const std::shared_ptr<Exchange> exchange = std::exchange(exchange_, nullptr);
  response_taken_ = false;
  state_ = State::kLingering;  // completed() may run code of the handler
  exchange->completed();
  if (keep_alive && !peer_done_ && !shared_->draining.load()) {
    become_idle();
  } else {
    linger();
  }
}

void Connection::become_idle() {
  state_ = State::kIdle;
  set_deadline(shared_->options.idle_timeout);
}

void Connection::linger() {
  state_ = State::kLingering;
  input_.clear();
  if (tls_) {
    tls_->end();
  }
  ErrorCode ec;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ec);
  if (ec || peer_done_) {
    close();
    return;
  }
  set_deadline(kLingerTime);
}

// ---- time

// The timer follows lazily: it is armed again only when it fires too early or a deadline comes
// nearer, so that a busy connection does not touch it for every request.
void Connection::set_deadline(Duration from_now) {
  deadline_ = std::chrono::steady_clock::now() + from_now;
  if (!armed_ || *armed_ > *deadline_) {
    arm_timer();
  }
}

void Connection::clear_deadline() { deadline_.reset(); }

void Connection::arm_timer() {
  armed_ = deadline_;
  timer_.expires_at(*deadline_);
  timer_.async_wait([self = shared_from_this()](const ErrorCode& ec) {
    if (ec || self->state_ == State::kClosed) {
      return;  // armed anew, or closed
    }
    self->armed_.reset();
    if (!self->deadline_) {
      return;
    }
    if (*self->deadline_ > std::chrono::steady_clock::now()) {
      self->arm_timer();
    } else {
      self->on_deadline();
    }
  });
}

void Connection::on_deadline() {
  if (state_ == State::kReading) {
    refuse(408, parsed_ == ParseState::kHeader ? "the header did not arrive in time"
                                               : "the body did not arrive in time");
    wait_readable();
    return;
  }
  close();
}

}  // namespace baton::http
