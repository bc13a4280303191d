#include "common/http/request_text.h"

namespace baton::http {

std::string encode_request(const ClientRequest& request, const Url& url) {
  std::string out = request.method + " " + url.target + " HTTP/1.1\r\n";
  if (!request.headers.contains("Host")) {
    out += "Host: " + to_string(url.server) + "\r\n";
  }
  for (const auto& [name, value] : request.headers) {
    out += name + ": " + value + "\r\n";
  }
  if (!request.body.empty() || request.method == "POST" || request.method == "PUT") {
    out += "Content-Length: " + std::to_string(request.body.size()) + "\r\n";
  }
  out += "\r\n";
  out += request.body;
  return out;
}

}  // namespace baton::http
