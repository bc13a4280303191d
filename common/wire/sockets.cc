#include "common/wire/sockets.h"

#include <poll.h>
#include <zmq.h>

#include <array>
#include <cerrno>
#include <utility>

#include "common/base/log.h"
#include "common/wire/codec.h"

namespace baton::wire {
namespace {

constexpr int kHandshakeMs = 2000;
constexpr int kPingMs = 1000;
constexpr int kPingTimeoutMs = 4000;
constexpr Duration kReportEvery = 10s;

void set_int(void* socket, int option, int value) {
  BATON_CHECK(zmq_setsockopt(socket, option, &value, sizeof(value)) == 0,
              zmq_strerror(zmq_errno()));
}

void set_common(void* socket, const SocketOptions& options) {
  set_int(socket, ZMQ_LINGER, 300);  // last words at exit, bounded
  set_int(socket, ZMQ_SNDHWM, options.send_queue_messages);
  set_int(socket, ZMQ_RCVHWM, options.send_queue_messages);
  set_int(socket, ZMQ_IPV6, 1);
  set_int(socket, ZMQ_HANDSHAKE_IVL, kHandshakeMs);
  const int64_t limit = kMaxMessageBytes;
  BATON_CHECK(zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &limit, sizeof(limit)) == 0,
              zmq_strerror(zmq_errno()));
}

// Dead machines send no last packet. ZeroMQ's own heartbeat is answered by the other end's I/O
// thread, however busy its loop is.
void set_liveness(void* socket) {
  set_int(socket, ZMQ_HEARTBEAT_IVL, kPingMs);
  set_int(socket, ZMQ_HEARTBEAT_TIMEOUT, kPingTimeoutMs);
  set_int(socket, ZMQ_HEARTBEAT_TTL, kPingTimeoutMs);
}

void set_key(void* socket, int option, const CurveKey& key) {
  BATON_CHECK(zmq_setsockopt(socket, option, key.data(), key.size()) == 0,
              zmq_strerror(zmq_errno()));
}

// Who is a member is asked of the context's Admission, which is there as long as any socket is.
void set_listener_key(void* socket, const ClusterKey& key) {
  set_int(socket, ZMQ_CURVE_SERVER, 1);
  set_key(socket, ZMQ_CURVE_SECRETKEY, key.listener().secret_key);
}

void set_member_key(void* socket, const ClusterKey& key) {
  set_key(socket, ZMQ_CURVE_SERVERKEY, key.listener().public_key);
  set_key(socket, ZMQ_CURVE_PUBLICKEY, key.member().public_key);
  set_key(socket, ZMQ_CURVE_SECRETKEY, key.member().secret_key);
}

Status address_error(const char* what, const std::string& address) {
  const int error = zmq_errno();
  std::string text = std::string(what) + " '" + address + "': ";
  if (error == EADDRINUSE) {
    return unavailable(text + "address already in use; choose another port");
  }
  if (error == EINVAL || error == EPROTONOSUPPORT) {
    return invalid_argument(text + "not an address (want tcp://host:port or ipc://path)");
  }
  return unavailable(text + zmq_strerror(error));
}

// One frame; nothing when none is waiting.
std::optional<std::string> receive_frame(void* socket, bool* more) {
  zmq_msg_t frame;
  zmq_msg_init(&frame);
  int size = -1;
  do {
    size = zmq_msg_recv(&frame, socket, ZMQ_DONTWAIT);
  } while (size < 0 && zmq_errno() == EINTR);
  if (size < 0) {
    zmq_msg_close(&frame);
    return std::nullopt;
  }
  std::string bytes(static_cast<const char*>(zmq_msg_data(&frame)), static_cast<size_t>(size));
  *more = zmq_msg_more(&frame) != 0;
  zmq_msg_close(&frame);
  return bytes;
}

void skip_frames(void* socket, bool more) {
  while (more) {
    if (!receive_frame(socket, &more)) {
      return;
    }
  }
}

Status send_failed() {
  const int error = zmq_errno();
  if (error == EAGAIN) {
    return resource_exhausted("send queue full");
  }
  return unavailable(error == EHOSTUNREACH ? "peer is not connected" : zmq_strerror(error));
}

int send_frame(void* socket, const std::string& bytes, int flags) {
  int sent = -1;
  do {
    sent = zmq_send(socket, bytes.data(), bytes.size(), flags | ZMQ_DONTWAIT);
  } while (sent < 0 && zmq_errno() == EINTR);
  return sent;
}

int fd_of(void* socket) {
  int fd = -1;
  size_t size = sizeof(fd);
  BATON_CHECK(zmq_getsockopt(socket, ZMQ_FD, &fd, &size) == 0, zmq_strerror(zmq_errno()));
  return fd;
}

void close_socket(void*& socket) {
  if (socket != nullptr) {
    zmq_close(socket);
    socket = nullptr;
  }
}

}  // namespace

Context::Context(const std::optional<ClusterKey>& key) : context_(zmq_ctx_new()), key_(key) {
  BATON_CHECK(context_ != nullptr, "zmq_ctx_new failed");
  if (key_) {
    BATON_CHECK(zmq_has("curve") == 1, "this ZeroMQ has no CURVE");
    admission_.emplace(context_, key_->member().public_key);
  }
}
Context::~Context() {
  admission_.reset();
  zmq_ctx_term(context_);
}

Status Context::start_faults(std::string_view seed, std::string_view process, Random& random) {
  if (seed.empty()) {
    return Status();
  }
  if constexpr (kFaultPoints) {
    BATON_ASSIGN_OR_RETURN(faults_, FaultPlan::create(seed, process, random));
    return Status();
  }
  return unsupported("this build has no fault points");
}

// ---------------------------------------------------------------- Listener

Result<Listener> Listener::bind(Context& context, const std::string& address,
                                const SocketOptions& options) {
  Listener listener;
  listener.socket_ = zmq_socket(context.native(), ZMQ_ROUTER);
  if (listener.socket_ == nullptr) {
    return internal_error(std::string("zmq_socket: ") + zmq_strerror(zmq_errno()));
  }
  set_common(listener.socket_, options);
  set_int(listener.socket_, ZMQ_ROUTER_MANDATORY, 1);
  set_int(listener.socket_, ZMQ_TCP_KEEPALIVE, 1);
  set_int(listener.socket_, ZMQ_TCP_KEEPALIVE_IDLE, 30);
  set_int(listener.socket_, ZMQ_TCP_KEEPALIVE_INTVL, 10);
  set_int(listener.socket_, ZMQ_TCP_KEEPALIVE_CNT, 3);
  listener.faults_.plan = context.faults();
  listener.faults_.point = options.fault_point;
  listener.keyed_ = context.key().has_value();
  if (listener.keyed_) {
    set_listener_key(listener.socket_, *context.key());
  }
  BATON_ASSIGN_OR_RETURN(listener.monitor_, Monitor::attach(context.native(), listener.socket_));
  if (zmq_bind(listener.socket_, address.c_str()) != 0) {
    return address_error("cannot listen on", address);
  }
  std::array<char, 512> bound{};
  size_t size = bound.size();
  BATON_CHECK(zmq_getsockopt(listener.socket_, ZMQ_LAST_ENDPOINT, bound.data(), &size) == 0,
              zmq_strerror(zmq_errno()));
  listener.address_ = bound.data();
  return listener;
}

Listener::~Listener() {
  monitor_.release();
  close_socket(socket_);
}
Listener::Listener(Listener&& other) noexcept
    : socket_(std::exchange(other.socket_, nullptr)),
      faults_(std::move(other.faults_)),
      monitor_(std::move(other.monitor_)),
      address_(std::move(other.address_)),
      keyed_(other.keyed_) {}
Listener& Listener::operator=(Listener&& other) noexcept {
  if (this != &other) {
    std::swap(socket_, other.socket_);
    std::swap(faults_, other.faults_);
    std::swap(monitor_, other.monitor_);
    std::swap(address_, other.address_);
    std::swap(keyed_, other.keyed_);
  }
  return *this;
}

void Listener::report_refused(TimePoint now) {
  const Monitor::Seen seen = monitor_.drain();
  // A peer that closes in the middle is one that stops, or one that could not read us.
  if (seen.failed > 0 && (keyed_ || seen.why == Handshake::kMechanism)) {
    refused_ += seen.failed;
    how_refused_ = seen.why;
  }
  if (refused_ == 0 || now < next_report_) {
    return;
  }
  log_warn("refused a peer on the control link",
           {{"address", address_},
            {"reason", how_refused_ == Handshake::kClosed
                           ? "it closed the handshake: another cluster key, or none"
                           : explain(how_refused_, keyed_)},
            {"times", std::exchange(refused_, 0)}});
  next_report_ = now + kReportEvery;
}

int Listener::poll_fd() const { return fd_of(socket_); }

std::optional<Received> Listener::receive() {
  if constexpr (kFaultPoints) {
    (void)send_due({});
  }
  bool more = false;
  std::optional<std::string> peer = receive_frame(socket_, &more);
  if (!peer) {
    return std::nullopt;
  }
  if (!more) {
    return Received{std::move(*peer), invalid_argument("message without a body")};
  }
  std::optional<std::string> body = receive_frame(socket_, &more);
  skip_frames(socket_, more);
  return Received{std::move(*peer), decode(body ? *body : std::string())};
}

Status Listener::send(const std::string& peer, const Message& message) {
  if constexpr (kFaultPoints) {
    if (faults_.plan != nullptr) {
      hold(faults_, peer, encode(message), std::chrono::steady_clock::now());
      return send_due(peer);
    }
  }
  return send_frames(peer, encode(message));
}

Status Listener::send_frames(const std::string& peer, const std::string& body) {
  if (send_frame(socket_, peer, ZMQ_SNDMORE) < 0 || send_frame(socket_, body, 0) < 0) {
    return send_failed();
  }
  return Status();
}

// The status is that of the messages to `peer`.
Status Listener::send_due(const std::string& peer) {
  Status status;
  if constexpr (kFaultPoints) {
    for (const HeldMessage& due : take_due(faults_, std::chrono::steady_clock::now())) {
      Status sent = send_frames(due.peer, due.body);
      status = due.peer == peer ? std::move(sent) : std::move(status);
    }
  }
  return status;
}

// ---------------------------------------------------------------- Connection

Result<Connection> Connection::connect(Context& context, const std::string& address,
                                       const SocketOptions& options) {
  Connection connection;
  connection.address_ = address;
  connection.socket_ = zmq_socket(context.native(), ZMQ_DEALER);
  if (connection.socket_ == nullptr) {
    return internal_error(std::string("zmq_socket: ") + zmq_strerror(zmq_errno()));
  }
  set_common(connection.socket_, options);
  set_int(connection.socket_, ZMQ_RECONNECT_IVL, 50);
  set_int(connection.socket_, ZMQ_RECONNECT_IVL_MAX, 2000);
  set_liveness(connection.socket_);
  connection.faults_.plan = context.faults();
  connection.faults_.point = options.fault_point;
  connection.keyed_ = context.key().has_value();
  if (connection.keyed_) {
    set_member_key(connection.socket_, *context.key());
  }
  BATON_ASSIGN_OR_RETURN(connection.monitor_,
                         Monitor::attach(context.native(), connection.socket_));
  if (zmq_connect(connection.socket_, address.c_str()) != 0) {
    return address_error("cannot connect to", address);
  }
  return connection;
}

Connection::~Connection() {
  monitor_.release();
  close_socket(socket_);
}
Connection::Connection(Connection&& other) noexcept
    : socket_(std::exchange(other.socket_, nullptr)),
      faults_(std::move(other.faults_)),
      monitor_(std::move(other.monitor_)),
      address_(std::move(other.address_)),
      keyed_(other.keyed_),
      failed_handshakes_(other.failed_handshakes_),
      why_failed_(std::move(other.why_failed_)) {}
Connection& Connection::operator=(Connection&& other) noexcept {
  if (this != &other) {
    std::swap(socket_, other.socket_);
    std::swap(faults_, other.faults_);
    std::swap(monitor_, other.monitor_);
    std::swap(address_, other.address_);
    std::swap(keyed_, other.keyed_);
    std::swap(failed_handshakes_, other.failed_handshakes_);
    std::swap(why_failed_, other.why_failed_);
  }
  return *this;
}

int Connection::poll_fd() const { return fd_of(socket_); }

bool Connection::take_disconnected() {
  const Monitor::Seen seen = monitor_.drain();
  if (seen.done) {
    failed_handshakes_ = 0;
    why_failed_.clear();
  }
  if (seen.failed > 0) {
    failed_handshakes_ += seen.failed;
    why_failed_ = explain(seen.why, keyed_);
  }
  return seen.disconnected;
}

std::optional<Received> Connection::receive() {
  if constexpr (kFaultPoints) {
    (void)send_due();
  }
  bool more = false;
  std::optional<std::string> body = receive_frame(socket_, &more);
  if (!body) {
    return std::nullopt;
  }
  skip_frames(socket_, more);
  return Received{std::string(), decode(*body)};
}

Status Connection::send_due() {
  Status status;
  if constexpr (kFaultPoints) {
    for (const HeldMessage& due : take_due(faults_, std::chrono::steady_clock::now())) {
      status = send_frame(socket_, due.body, 0) < 0 ? send_failed() : Status();
    }
  }
  return status;
}

Status Connection::send(const Message& message) {
  if constexpr (kFaultPoints) {
    if (faults_.plan != nullptr) {
      hold(faults_, {}, encode(message), std::chrono::steady_clock::now());
      return send_due();
    }
  }
  return send_frame(socket_, encode(message), 0) < 0 ? send_failed() : Status();
}

int wait_readable(std::span<const int> fds, TimePoint deadline) {
  std::array<pollfd, 64> polled{};
  BATON_CHECK(fds.size() <= polled.size(), "too many descriptors");
  for (size_t i = 0; i < fds.size(); ++i) {
    polled[i] = {fds[i], POLLIN, 0};
  }
  const Duration left = deadline - std::chrono::steady_clock::now();
  timespec wait{};
  if (left > Duration::zero()) {
    wait.tv_sec = left.count() / 1'000'000'000;
    wait.tv_nsec = left.count() % 1'000'000'000;
  }
  const int ready = ppoll(polled.data(), fds.size(), &wait, nullptr);
  return ready < 0 ? 0 : ready;
}

}  // namespace baton::wire
