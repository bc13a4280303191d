#pragma once

// A plain blocking socket for the tests: what Client would never send, and what really arrived.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>

namespace baton::http {

class TestSocket {
 public:
  explicit TestSocket(uint16_t port, int receive_buffer = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    const int one = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  }
  ~TestSocket() { close_now(); }
  TestSocket(const TestSocket&) = delete;
  TestSocket& operator=(const TestSocket&) = delete;

  bool connected() const { return connected_; }
  int fd() const { return fd_; }

  // False when the peer has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) {
        return false;
      }
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  void end_sending() { shutdown(fd_, SHUT_WR); }
  void close_now() {
    if (fd_ >= 0) {
      close(fd_);
    }
    fd_ = -1;
  }
  // Closes with a reset.
  void reset() {
    const linger now{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close_now();
  }

  // One recv(2); empty at the end of the stream or after `ms` without a byte.
  std::string read_once(int ms = 5000) {
    pollfd p{fd_, POLLIN, 0};
    if (poll(&p, 1, ms) <= 0) {
      return {};
    }
    std::string buffer(64 * 1024, '\0');
    const ssize_t n = recv(fd_, buffer.data(), buffer.size(), 0);
    buffer.resize(n > 0 ? static_cast<size_t>(n) : 0);
    ended_ = n <= 0;
    return buffer;
  }
  // Reads until `text` has arrived (true) or the stream ends or `ms` pass without a byte.
  bool read_until(std::string_view text, int ms = 5000) {
    while (received.find(text) == std::string::npos) {
      const std::string more = read_once(ms);
      if (more.empty()) {
        return false;
      }
      received += more;
    }
    return true;
  }
  // Everything up to the end of the stream.
  std::string read_all(int ms = 5000) {
    while (true) {
      const std::string more = read_once(ms);
      if (more.empty()) {
        return received;
      }
      received += more;
    }
  }
  // Whether read_once() met the end (or a reset).
  bool ended() const { return ended_; }

  std::string received;

 private:
  int fd_;
  bool connected_ = false;
  bool ended_ = false;
};

}  // namespace baton::http
