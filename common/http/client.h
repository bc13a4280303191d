#pragma once

// A small blocking HTTP/1.1 client with deadlines, for status, probes, load generation and tests,
// over http:// and https://. One Client serves one thread at a time (cancel() may come from any);
// it keeps its last connection open and uses it again for the same host.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/http/message.h"
#include "common/http/tls.h"

namespace baton::http {

struct ClientOptions {
  Duration connect_timeout = 2s;
  Duration timeout = 30s;                    // for the whole exchange
  Duration idle_timeout = 30s;               // between two reads
  size_t max_body_bytes = 64 * 1024 * 1024;  // of a response that is collected
  // An exchange ends with kCancelled, and its connection with it, while this descriptor is readable
  // (a signalfd). Borrowed, never read; -1 is none.
  int interrupt_fd = -1;
  TlsTrust trust{};  // of https://
};

struct ClientRequest {
  std::string method = "GET";
  std::string url;  // "https://localhost:8000/v1/models"
  Headers headers;  // Host, Content-Length and Connection are added
  std::string body;
};

// What on_body gets: bytes of the body as they arrive, chunk framing removed. False ends the
// exchange (the result is kCancelled).
using BodyCallback = std::function<bool(std::string_view)>;

class Client {
 public:
  explicit Client(ClientOptions options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Any HTTP status is a success here. Failures name the url: kUnavailable (refused, unreachable,
  // reset, a certificate that is not trusted), kDeadlineExceeded, kCancelled, kInvalidArgument
  // (url, a file of TlsTrust), kInternal (not HTTP).
  Result<Response> get(std::string_view url);
  Result<Response> post(std::string_view url, std::string body,
                        std::string_view content_type = "application/json");
  Result<Response> request(const ClientRequest& request);
  // As request(), but the body goes to `on_body` and is not kept; `on_head` (may be empty) sees
  // status and headers first.
  Result<Response> stream(const ClientRequest& request,
                          const std::function<void(const Response&)>& on_head,
                          const BodyCallback& on_body);

  // Ends the exchange in progress, and every later one, with kCancelled. Thread-safe.
  void cancel();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton::http
