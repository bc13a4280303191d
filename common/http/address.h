#pragma once

// "host:port" and "https://host:port/path" as text. No name is resolved here.

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace baton::http {

struct HostPort {
  std::string host;  // without brackets
  uint16_t port = 0;
};
Result<HostPort> parse_host_port(std::string_view text);  // "127.0.0.1:80", "[::1]:80"
std::string to_string(const HostPort& address);           // brackets around an IPv6 host

struct Url {
  bool tls = false;  // https
  HostPort server;
  std::string target;  // "/path?query", at least "/"
};
Result<Url> parse_url(std::string_view text);  // the port defaults to 80, with https:// to 443
std::string origin(const Url& url);            // "https://host:port"

}  // namespace baton::http
