#pragma once

// TLS on one accepted, non-blocking socket. Internal to common/http: the only header with OpenSSL.

#include <openssl/ssl.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/http/tls.h"

namespace baton::http {

// What sessions are made from; immutable.
class TlsContext {
 public:
  static Result<std::shared_ptr<const TlsContext>> read(const TlsFiles& files);

  SSL_CTX* get() const { return context_.get(); }
  const BIO_METHOD* transport() const { return transport_.get(); }

 private:
  struct FreeContext {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  struct FreeMethod {
    void operator()(BIO_METHOD* method) const { BIO_meth_free(method); }
  };
  TlsContext() = default;

  std::unique_ptr<SSL_CTX, FreeContext> context_;
  std::unique_ptr<BIO_METHOD, FreeMethod> transport_;
};

// Not thread-safe. Does not own the socket, and never blocks.
class TlsSession {
 public:
  enum class Outcome {
    kDone,
    kWantRead,   // again when the socket is readable
    kWantWrite,  // again when it is writable
    kEnd,        // the peer has sent its last byte
    kPlainHttp,  // the peer speaks HTTP without TLS
    kFailed,     // a broken handshake or record, or a broken connection
  };
  struct Moved {
    Outcome outcome = Outcome::kFailed;
    size_t bytes = 0;
  };

  TlsSession(std::shared_ptr<const TlsContext> context, int fd);

  // The first reads do the handshake.
  Moved read(std::span<char> into);
  // One record at most. After kWantWrite the next call must have the same bytes in front.
  Moved write(std::string_view bytes);
  // Tells the peer that nothing follows.
  void end();
  bool established() const { return SSL_is_init_finished(session_.get()) != 0; }

 private:
  struct FreeSession {
    void operator()(SSL* session) const { SSL_free(session); }
  };
  Outcome outcome_of(int result) const;

  const std::shared_ptr<const TlsContext> context_;
  std::unique_ptr<SSL, FreeSession> session_;
};

}  // namespace baton::http
