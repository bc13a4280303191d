#include "deploy/baton/ports.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace baton::cli {
namespace {

constexpr uint16_t kFirstPort = 16'000;
constexpr uint16_t kPorts = 16'000;
constexpr int kTries = 200;

Status bind_error(const std::string& host, uint16_t port, int error) {
  const std::string at = host + ":" + std::to_string(port);
  if (error == EADDRINUSE) {
    return unavailable("port " + std::to_string(port) + " on " + host +
                       " is in use; choose another with --port N (0 takes any)");
  }
  if (error == EADDRNOTAVAIL) {
    return invalid_argument(host + " is no address of this machine");
  }
  return unavailable("cannot listen on " + at + ": " + std::strerror(error));
}

}  // namespace

Status check_port(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    return invalid_argument("cannot resolve the host " + host);
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return bind_error(host, port, errno);
  }
  // As servers do: closed connections that linger do not count.
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool free = bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 1) == 0;
  const int error = errno;
  close(fd);
  return free ? Status() : bind_error(host, port, error);
}

Result<uint16_t> choose_port(const std::string& host, Random& random) {
  Status last;
  for (int i = 0; i < kTries; ++i) {
    const auto port = static_cast<uint16_t>(kFirstPort + random.next() % kPorts);
    last = check_port(host, port);
    if (last.ok()) {
      return port;
    }
    if (last.code() == StatusCode::kInvalidArgument) {
      break;
    }
  }
  return last;
}

}  // namespace baton::cli
