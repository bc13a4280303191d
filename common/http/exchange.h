#pragma once

// The answer to one request on its way from any thread to the connection's I/O thread: producers
// encode and queue pieces here, the connection takes and sends them.

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/mutex.h"
#include "common/http/message.h"
#include "common/http/server.h"

namespace baton::http {

// The connection, as producers see it. Thread-safe, never blocks.
class OutputSink {
 public:
  virtual ~OutputSink() = default;
  // There is something to take.
  virtual void wake() = 0;
  // Stands in when the handler gave no answer.
  virtual Response abandoned_response() = 0;
};

// How the head of a response is written on one connection.
struct WireForm {
  int http_minor = 1;
  bool head_only = false;  // HEAD: all fields, no body
  bool keep_alive = true;
  enum class Body { kLength, kChunked, kUntilClose } body = Body::kLength;
};
// Control characters in names and values are left out, so that an echoed value adds no field.
std::string encode_head(int status, const Headers& headers, const WireForm& form,
                        size_t content_length);

// Thread-safe. Shared by the connection and the Responder that the handler holds.
class Exchange final {
 public:
  struct Setup {
    int http_minor = 1;
    bool head_request = false;
    bool keep_alive = true;
    size_t max_buffered_bytes = 0;
  };
  Exchange(Setup setup, std::weak_ptr<OutputSink> sink);

  // Producers; contracts in Responder.
  void send(Response response);
  void begin_stream(int status, Headers headers);
  bool write(std::string_view bytes);
  void finish();
  bool alive() const;
  void on_close(std::function<void()> callback);
  size_t buffered_bytes() const;
  void abandon();  // no producer is left

  // The connection.
  struct Output {
    std::deque<std::string> pieces;
    bool complete = false;    // nothing comes after these pieces
    bool keep_alive = false;  // valid when complete
    bool broken = false;      // close without sending: cut stream or slow reader
  };
  Output take();
  void sent(size_t bytes);
  void completed();  // all was sent: the on_close callback is dropped
  void closed();     // the client is gone: runs the on_close callback on this thread
  // The server drains: the response, if its head is not written yet, announces the close.
  void close_after();

 private:
  enum class Stage { kPending, kStreaming, kComplete };
  void push(std::string piece) REQUIRES(mutex_);
  void wake();

  const Setup setup_;
  const std::weak_ptr<OutputSink> sink_;
  mutable Mutex mutex_;
  Stage stage_ GUARDED_BY(mutex_) = Stage::kPending;
  bool keep_alive_ GUARDED_BY(mutex_);
  bool chunked_ GUARDED_BY(mutex_) = false;
  bool dead_ GUARDED_BY(mutex_) = false;
  bool broken_ GUARDED_BY(mutex_) = false;
  bool completed_ GUARDED_BY(mutex_) = false;
  std::string held_head_ GUARDED_BY(mutex_);  // leaves with the first write
  std::deque<std::string> pieces_ GUARDED_BY(mutex_);
  size_t buffered_ GUARDED_BY(mutex_) = 0;
  std::function<void()> on_close_ GUARDED_BY(mutex_);
};

// What handlers get: tells the exchange when the last holder let go.
std::shared_ptr<Responder> make_responder(std::shared_ptr<Exchange> exchange);

}  // namespace baton::http
