#pragma once

// An asynchronous HTTP/1.1 server: a handler per request, answered now or later from any thread.
//
// Threads: `io_threads` named threads ("<name>-0", ...). The handler and on_close callbacks run on
// them and must not block: they hand work to other threads, which answer through the Responder.
// One connection belongs to one thread; pipelined requests are handled one after the other.
//
// What the server answers by itself, always with a JSON error body: 400 malformed, 408 too slow,
// 413 body over the limit (before it is read), 414 target too long, 417 unknown expectation,
// 431 header too large, 501 transfer coding, 503 too many connections, 505 version.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/http/message.h"
#include "common/http/tls.h"

namespace baton::http {

// The answer to one request. Thread-safe; may outlive the server (calls then do nothing).
// Either send() once, or begin_stream(), write()*, finish(). Later calls are ignored. When the last
// reference goes without an answer the client gets a 500; in mid-stream the connection is closed,
// so that the client sees that the stream was cut.
class Responder {
 public:
  virtual ~Responder() = default;

  virtual void send(Response response) = 0;

  // The head leaves together with the first write. HTTP/1.1 clients get chunks, HTTP/1.0 clients a
  // body that ends with the connection.
  virtual void begin_stream(int status, Headers headers) = 0;
  // One write is one chunk. It leaves at once, while the client keeps up, in a send(2) of its own
  // or with others that are ready at the same time (together at most 1,400 bytes: none is cut).
  // Never blocks. False when the client is gone or has been closed for reading too slowly; the
  // producer should stop.
  virtual bool write(std::string_view bytes) = 0;
  virtual void finish() = 0;

  // False once the client is gone or the connection failed. A client that closes its sending side
  // while its request is with the handler counts as gone: the two cannot be told apart.
  virtual bool alive() const = 0;
  // `callback` runs once, on an I/O thread, if the client goes away (or the server stops) before
  // the response was given completely to the kernel; at once on this thread if that has happened
  // already. Setting it again replaces it; an empty function removes it. It is dropped when the
  // response is complete.
  virtual void on_close(std::function<void()> callback) = 0;
  // Bytes given to write() that the kernel has not taken yet.
  virtual size_t buffered_bytes() const = 0;
};

using Handler = std::function<void(Request, std::shared_ptr<Responder>)>;

struct ServerOptions {
  std::string name = "http";  // of the threads; at most 12 characters
  int io_threads = 1;
  size_t max_header_bytes = 16 * 1024;
  size_t max_target_bytes = 8 * 1024;
  size_t max_body_bytes = 32 * 1024 * 1024;
  size_t max_connections = 10'000;
  size_t max_buffered_bytes = 4 * 1024 * 1024;  // per connection; a slower reader is closed
  Duration header_timeout = 10s;                // first byte of a request to the end of its header
  Duration body_timeout = 30s;                  // for the body, and 1 s more per 64 KiB received
  Duration idle_timeout = 75s;                  // between requests, and before the first
  Duration write_timeout = 30s;  // without a byte taken by the client while some wait
  // With a certificate the server speaks TLS only. The handshake has header_timeout; who speaks
  // plain HTTP gets a 400 that says so; connections beyond the limit are closed without an answer.
  std::shared_ptr<TlsCertificate> tls;
  // How to choose another address, in the words of the caller: "--port or router.listen".
  std::string address_hint;
  // Adds fields (request id, CORS) to what the server answers by itself. Thread-safe. The
  // request holds what was understood of it, perhaps nothing.
  std::function<void(const Request&, Headers&)> decorate;
};

class Server {
 public:
  // Listens on `address` ("127.0.0.1:8000", "[::1]:0", "localhost:80"; port 0 = any free one).
  // kUnavailable when the address is taken, naming it and `address_hint`; kInvalidArgument when it
  // is not an address of this machine.
  static Result<std::unique_ptr<Server>> start(std::string_view address, ServerOptions options,
                                               Handler handler);
  ~Server();  // stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;               // the one in use
  const std::string& address() const;  // "127.0.0.1:8000", with the port in use
  std::string url() const;             // "http://127.0.0.1:8000"; a wildcard address as loopback

  size_t connections() const;

  // Closes the listening socket and idle connections; later responses carry Connection: close.
  // Clients that are connected already and whose request is on its way get an answer.
  void stop_accepting();
  // stop_accepting(), then waits until every connection is done. False at `deadline`.
  bool drain(TimePoint deadline);
  // Closes everything (on_close callbacks run) and joins the threads. Not from an I/O thread.
  void stop();

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton::http
