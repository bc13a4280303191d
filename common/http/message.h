#pragma once

// Requests and responses as plain values. No type of the HTTP library appears here.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::http {

// An ordered list of fields; names compare without case. Small, so a search is linear.
class Headers {
 public:
  using Field = std::pair<std::string, std::string>;

  Headers() = default;
  Headers(std::initializer_list<Field> fields) : fields_(fields) {}

  // Appends; a name may occur several times.
  void add(std::string name, std::string value) {
    fields_.emplace_back(std::move(name), std::move(value));
  }
  // Replaces every field of that name by this one.
  void set(std::string_view name, std::string value);
  // The first value of that name, or null. Valid until the headers change.
  const std::string* find(std::string_view name) const;
  // The first value, or `fallback`.
  std::string_view get(std::string_view name, std::string_view fallback = {}) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  size_t count(std::string_view name) const;
  // Whether a comma-separated list field (Connection, Transfer-Encoding) names `token`.
  bool has_token(std::string_view name, std::string_view token) const;

  size_t size() const { return fields_.size(); }
  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }

 private:
  std::vector<Field> fields_;
};

// ASCII only, independent of the locale.
bool equals_ignoring_case(std::string_view a, std::string_view b);

struct Request {
  std::string method;  // as sent, e.g. "POST"
  std::string target;  // as sent, e.g. "/v1/models/a%2Fb?x=1"
  std::string path;    // percent-decoded, without the query; "*" for OPTIONS *
  std::string query;   // raw text after '?', without it
  Headers headers;
  std::string body;          // chunked bodies are joined
  std::string peer_address;  // "127.0.0.1:51234", "[::1]:51234"
  int http_minor = 1;        // 0 for HTTP/1.0
};

struct Response {
  int status = 200;
  Headers headers;  // Content-Length, Connection and Date are added by the server
  std::string body;
};

// "Not Found" for 404; "Unknown" for a code without a registered phrase.
std::string_view reason_phrase(int status);

}  // namespace baton::http
