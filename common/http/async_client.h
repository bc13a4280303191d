#pragma once

// An HTTP/1.1 client for thousands of exchanges at once with one server, on the caller's thread:
// nothing happens outside of run_for(). Over http:// and https://. Connections are kept and used
// again, but no request is ever sent twice. One thread at a time.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/http/client.h"
#include "common/http/message.h"

namespace baton::http {

struct AsyncClientOptions {
  Duration connect_timeout = 5s;
  size_t max_exchanges = 4096;  // at once
  TlsTrust trust{};             // of https://
};

// What becomes of one exchange. Called inside run_for() (on_end also inside cancel()); calls may
// start and cancel exchanges. `at` is when the bytes were read, by the client's clock.
class ExchangeObserver {
 public:
  virtual ~ExchangeObserver() = default;
  virtual void on_head(const Response& head) = 0;
  // A piece of the body, chunk framing removed. False ends the exchange with kCancelled.
  virtual bool on_body(std::string_view bytes, TimePoint at) = 0;
  // The last call, exactly once. Any HTTP status is a success. Else kUnavailable (refused, reset,
  // cut in the middle), kDeadlineExceeded, kCancelled, kInternal (not HTTP). The observer is not
  // used any more when this returns.
  virtual void on_end(const Status& status, TimePoint at) = 0;
};

class AsyncClient {
 public:
  using ExchangeId = uint64_t;

  // Resolves the host of `url` once; its path is not used. kUnavailable when there is no such host.
  // kInvalidArgument: the url, a file of TlsTrust. `clock` only stamps events: time limits always
  // follow the steady clock.
  static Result<std::unique_ptr<AsyncClient>> create(std::string_view url,
                                                     AsyncClientOptions options,
                                                     const Clock& clock);
  ~AsyncClient();  // exchanges in progress end without a call
  AsyncClient(const AsyncClient&) = delete;
  AsyncClient& operator=(const AsyncClient&) = delete;

  // Begins an exchange that must be over within `timeout`. `request.url` is a path here:
  // "/v1/models". The observer stays valid until its on_end(). kResourceExhausted, and no call,
  // when max_exchanges run.
  Result<ExchangeId> start(const ClientRequest& request, Duration timeout,
                           ExchangeObserver& observer);
  // Ends an exchange with kCancelled and closes its connection; an id that is over is ignored.
  void cancel(ExchangeId id);
  void cancel_all();

  // Does I/O and calls observers for that long, to within some 0.1 ms on an idle machine, or until
  // interrupt() (from a call). Zero handles what is ready.
  void run_for(Duration duration);
  void interrupt();

  size_t exchanges() const;    // in progress
  size_t connections() const;  // open, idle ones included

 private:
  struct Impl;
  explicit AsyncClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton::http
