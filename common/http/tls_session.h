#pragma once

// TLS on one connected, non-blocking socket. Internal to common/http: the only header with OpenSSL.

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
  // For clients. Errors name the file.
  static Result<std::shared_ptr<const TlsContext>> trusting(const TlsTrust& trust);

  SSL_CTX* get() const { return context_.get(); }
  const BIO_METHOD* transport() const { return transport_.get(); }
  const std::string& hint() const { return hint_; }

 private:
  struct FreeContext {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  struct FreeMethod {
    void operator()(BIO_METHOD* method) const { BIO_meth_free(method); }
  };
  TlsContext() = default;
  static Result<std::shared_ptr<TlsContext>> create(const SSL_METHOD* method);
  Status trust_only(const std::string& certificate);
  static int has_own_certificate(X509_STORE_CTX* chain, void* certificate);

  struct FreeCertificate {
    void operator()(X509* certificate) const { X509_free(certificate); }
  };
  // Before the context, which refers to it.
  std::unique_ptr<X509, FreeCertificate> own_certificate_;
  std::string hint_;
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

  // On a socket that was accepted.
  TlsSession(std::shared_ptr<const TlsContext> context, int fd);
  // On one that was connected to `host`, whose name the certificate must have.
  TlsSession(std::shared_ptr<const TlsContext> context, int fd, const std::string& host);

  // The first reads or writes do the handshake: either may want either then.
  Moved read(std::span<char> into);
  // One record at most. After kWantWrite the next call must have the same bytes in front.
  Moved write(std::string_view bytes);
  // Tells the peer that nothing follows.
  void end();
  bool established() const { return SSL_is_init_finished(session_.get()) != 0; }
  // Bytes are here that the socket does not show.
  bool pending() const { return SSL_has_pending(session_.get()) != 0; }
  // Why a call of this thread has just failed, for the user of a client.
  std::string problem() const;

 private:
  struct FreeSession {
    void operator()(SSL* session) const { SSL_free(session); }
  };
  Outcome outcome_of(int result) const;

  const std::shared_ptr<const TlsContext> context_;
  std::unique_ptr<SSL, FreeSession> session_;
};

}  // namespace baton::http
