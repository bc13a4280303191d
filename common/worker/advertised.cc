#include "common/worker/advertised.h"

namespace baton::worker {
namespace {

// "HOST" and "PORT" of "HOST:PORT"; IPv6 with its brackets.
struct Parts {
  std::string host;
  std::string port;
};
Parts split(const std::string& address) {
  const size_t colon = address.rfind(':');
  return colon == std::string::npos ? Parts{address, ""}
                                    : Parts{address.substr(0, colon), address.substr(colon + 1)};
}

}  // namespace

std::string advertised_address(const std::string& bound, const std::string& advertise) {
  if (advertise.empty()) {
    return bound;
  }
  const Parts told = split(advertise);
  return "tcp://" + told.host + ":" + (told.port == "0" ? split(bound).port : told.port);
}

std::string advertised_url(const std::string& url, const std::string& advertise) {
  constexpr std::string_view kHttp = "http://";
  if (advertise.empty() || !url.starts_with(kHttp)) {
    return url;
  }
  const Parts bound = split(url.substr(kHttp.size()));
  if (bound.host != "0.0.0.0" && bound.host != "[::]") {
    return url;
  }
  return std::string(kHttp) + split(advertise).host + ":" + bound.port;
}

}  // namespace baton::worker
