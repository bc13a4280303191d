#include "common/http/address.h"

#include <charconv>

namespace baton::http {
namespace {

constexpr std::string_view kHttp = "http://";
constexpr std::string_view kHttps = "https://";

}  // namespace

Result<HostPort> parse_host_port(std::string_view text) {
  const auto fail = [&] {
    return invalid_argument("\"" + std::string(text) +
                            "\" is not an address; write host:port, for example 127.0.0.1:8000 "
                            "or [::1]:8000");
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return fail();
  }
  std::string_view host = text.substr(0, colon);
  const std::string_view port_text = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find_first_of(":[]") != std::string_view::npos) {
    return fail();
  }
  if (host.empty() || host.find_first_of(" \t\r\n/@") != std::string_view::npos) {
    return fail();
  }
  uint32_t port = 0;
  const char* end = port_text.data() + port_text.size();
  const auto [stop, error] = std::from_chars(port_text.data(), end, port);
  if (error != std::errc() || stop != end || port > 65535) {
    return fail();
  }
  return HostPort{std::string(host), static_cast<uint16_t>(port)};
}

std::string to_string(const HostPort& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return (v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

Result<Url> parse_url(std::string_view text) {
  Url url;
  url.tls = text.starts_with(kHttps);
  if (!url.tls && !text.starts_with(kHttp)) {
    return invalid_argument("\"" + std::string(text) +
                            "\" is not a url that begins with http:// or https://");
  }
  std::string_view rest = text.substr(url.tls ? kHttps.size() : kHttp.size());
  const size_t end_of_authority = rest.find_first_of("/?#");
  std::string authority(rest.substr(0, end_of_authority));
  std::string_view target =
      end_of_authority == std::string_view::npos ? "" : rest.substr(end_of_authority);
  target = target.substr(0, target.find('#'));
  if (target.find_first_of(" \t\r\n") != std::string_view::npos) {
    return invalid_argument("the url \"" + std::string(text) + "\" holds white space");
  }
  const size_t colon = authority.rfind(':');
  const size_t bracket = authority.rfind(']');
  const bool has_port =
      colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  if (!has_port) {
    authority += url.tls ? ":443" : ":80";
  }
  Result<HostPort> server = parse_host_port(authority);
  if (!server.ok()) {
    return server.status().with_context("url " + std::string(text));
  }
  url.server = *std::move(server);
  url.target = target;
  if (!url.target.starts_with('/')) {
    url.target.insert(0, "/");
  }
  return url;
}

std::string origin(const Url& url) {
  return std::string(url.tls ? kHttps : kHttp) + to_string(url.server);
}

}  // namespace baton::http
