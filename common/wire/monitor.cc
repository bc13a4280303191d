#include "common/wire/monitor.h"

#include <zmq.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/check.h"

namespace baton::wire {
namespace {

constexpr int kEvents = ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                        ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                        ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

struct Event {
  uint16_t kind = 0;
  int32_t value = 0;
};

// An event is two frames: six bytes of kind and value, and an address. False when none waits.
bool receive_event(void* events, Event& event) {
  std::array<char, 256> bytes{};
  const int size = zmq_recv(events, bytes.data(), bytes.size(), ZMQ_DONTWAIT);
  if (size < 0) {
    return false;
  }
  if (size >= static_cast<int>(sizeof(event.kind) + sizeof(event.value))) {
    std::memcpy(&event.kind, bytes.data(), sizeof(event.kind));
    std::memcpy(&event.value, bytes.data() + sizeof(event.kind), sizeof(event.value));
  }
  zmq_recv(events, bytes.data(), bytes.size(), ZMQ_DONTWAIT);
  return true;
}

Handshake how_it_failed(const Event& event) {
  if (event.kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) {
    return Handshake::kOtherKey;
  }
  if (event.kind == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) {
    return event.value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH ? Handshake::kMechanism
                                                                     : Handshake::kOtherKey;
  }
  return event.value == ETIMEDOUT || event.value == EAGAIN ? Handshake::kSilent
                                                           : Handshake::kClosed;
}

}  // namespace

Result<Monitor> Monitor::attach(void* context, void* socket) {
  // The name is unique in the process because the socket's address is.
  const std::string name =
      "inproc://monitor-" + std::to_string(reinterpret_cast<uintptr_t>(socket));
  Monitor monitor;
  if (zmq_socket_monitor(socket, name.c_str(), kEvents) != 0) {
    return internal_error(std::string("zmq_socket_monitor: ") + zmq_strerror(zmq_errno()));
  }
  monitor.socket_ = socket;
  monitor.events_ = zmq_socket(context, ZMQ_PAIR);
  if (monitor.events_ == nullptr) {
    return internal_error(std::string("zmq_socket: ") + zmq_strerror(zmq_errno()));
  }
  const int no_linger = 0;
  zmq_setsockopt(monitor.events_, ZMQ_LINGER, &no_linger, sizeof(no_linger));
  if (zmq_connect(monitor.events_, name.c_str()) != 0) {
    return internal_error(std::string("monitor: ") + zmq_strerror(zmq_errno()));
  }
  return monitor;
}

void Monitor::release() {
  if (socket_ != nullptr) {
    zmq_socket_monitor(socket_, nullptr, 0);
    socket_ = nullptr;
  }
  if (events_ != nullptr) {
    zmq_close(events_);
    events_ = nullptr;
  }
}

Monitor::~Monitor() { release(); }
Monitor::Monitor(Monitor&& other) noexcept
    : socket_(std::exchange(other.socket_, nullptr)),
      events_(std::exchange(other.events_, nullptr)) {}
Monitor& Monitor::operator=(Monitor&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(events_, other.events_);
  return *this;
}

int Monitor::poll_fd() const {
  int fd = -1;
  size_t size = sizeof(fd);
  BATON_CHECK(zmq_getsockopt(events_, ZMQ_FD, &fd, &size) == 0, zmq_strerror(zmq_errno()));
  return fd;
}

Monitor::Seen Monitor::drain() {
  Seen seen;
  for (Event event; receive_event(events_, event); event = Event()) {
    if (event.kind == ZMQ_EVENT_DISCONNECTED) {
      seen.disconnected = true;
    } else if (event.kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
      seen.done = true;
      seen.failed = 0;
      seen.why = Handshake::kNone;
    } else {
      ++seen.failed;
      const Handshake how = how_it_failed(event);
      if (seen.why == Handshake::kNone || how != Handshake::kClosed) {
        seen.why = how;  // a close may follow the reason
      }
    }
  }
  return seen;
}

std::string explain(Handshake how, bool own_key) {
  switch (how) {
    case Handshake::kNone:
      return "";
    case Handshake::kOtherKey:
      return "cluster key does not match";
    case Handshake::kMechanism:
      return own_key ? "cluster key does not match: the peer has none (cluster.key_file)"
                     : "cluster key does not match: the peer asks for one; set cluster.key_file";
    case Handshake::kClosed:
      return own_key ? "cluster key does not match: the peer closed the handshake"
                     : "the peer closed the handshake; if its cluster has a key, set "
                       "cluster.key_file";
    case Handshake::kSilent:
      return "no handshake in time; is a program of Baton listening there?";
  }
  return "";
}

}  // namespace baton::wire
