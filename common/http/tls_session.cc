#include "common/http/tls_session.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

namespace baton::http {
namespace {

// What was wrong first, and nothing left behind for the next call.
std::string take_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (ERR_SYSTEM_ERROR(code)) {
    return std::generic_category().message(ERR_GET_REASON(code));
  }
  const char* reason = ERR_reason_error_string(code);
  return reason == nullptr ? "unknown error" : reason;
}

// OpenSSL's own transport for sockets would raise SIGPIPE where a peer is gone.
int socket_of(BIO* bio) { return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))); }

bool again() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

int send_bytes(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t n = ::send(socket_of(bio), bytes, static_cast<size_t>(size), MSG_NOSIGNAL);
  if (n < 0 && again()) {
    BIO_set_retry_write(bio);
  }
  return static_cast<int>(n);
}

int receive_bytes(BIO* bio, char* into, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t n = ::recv(socket_of(bio), into, static_cast<size_t>(size), 0);
  if (n < 0 && again()) {
    BIO_set_retry_read(bio);
  } else if (n == 0) {
    BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  }
  return static_cast<int>(n);
}

long control(BIO* bio, int command, long, void*) {
  switch (command) {
    case BIO_CTRL_EOF:
      return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
    case BIO_CTRL_FLUSH:
      return 1;
    default:
      return 0;
  }
}

constexpr std::string_view kHttp11 = "\x08http/1.1";

// Clients that offer HTTP/2 get HTTP/1.1.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_size,
                    const unsigned char* offered, unsigned int offered_size, void*) {
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, chosen_size,
                            reinterpret_cast<const unsigned char*>(kHttp11.data()), kHttp11.size(),
                            offered, offered_size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

// A key with a passphrase is refused; OpenSSL would ask for it on the terminal.
int no_passphrase(char*, int, int, void*) { return -1; }

}  // namespace

// What both sides have in common.
Result<std::shared_ptr<TlsContext>> TlsContext::create(const SSL_METHOD* method) {
  std::shared_ptr<TlsContext> made(new TlsContext());
  ERR_clear_error();
  made->context_.reset(SSL_CTX_new(method));
  made->transport_.reset(BIO_meth_new(BIO_TYPE_SOURCE_SINK, "socket"));
  SSL_CTX* context = made->context_.get();
  BIO_METHOD* transport = made->transport_.get();
  if (context == nullptr || transport == nullptr) {
    return internal_error("TLS: " + take_error());
  }
  BIO_meth_set_write(transport, send_bytes);
  BIO_meth_set_read(transport, receive_bytes);
  BIO_meth_set_ctrl(transport, control);
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // HTTP says by itself where a message ends; a missing farewell is no attack on it.
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF |
                                   SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Idle connections hold no buffers; sessions are resumed by tickets, which take no memory here.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  return made;
}

Result<std::shared_ptr<const TlsContext>> TlsContext::read(const TlsFiles& files) {
  BATON_ASSIGN_OR_RETURN(std::shared_ptr<TlsContext> made, create(TLS_server_method()));
  SSL_CTX* context = made->context_.get();
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  if (SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1) {
    return invalid_argument("cannot use the TLS certificate '" + files.certificate +
                            "': " + take_error());
  }
  if (SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return invalid_argument("cannot use the TLS key '" + files.key + "' with the certificate '" +
                            files.certificate + "': " + take_error());
  }
  return std::shared_ptr<const TlsContext>(std::move(made));
}

Result<std::shared_ptr<const TlsContext>> TlsContext::trusting(const TlsTrust& trust) {
  BATON_ASSIGN_OR_RETURN(std::shared_ptr<TlsContext> made, create(TLS_client_method()));
  SSL_CTX* context = made->context_.get();
  made->hint_ = trust.hint;
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (!trust.own_certificate.empty()) {
    BATON_RETURN_IF_ERROR(made->trust_only(trust.own_certificate));
  } else if (trust.authorities.empty()) {
    SSL_CTX_set_default_verify_paths(context);  // none is no error: then nobody is trusted
  } else if (SSL_CTX_load_verify_file(context, trust.authorities.c_str()) != 1) {
    return invalid_argument("cannot use the certificates in '" + trust.authorities +
                            "': " + take_error());
  }
  // What the user names is trusted, be it an authority or the server itself.
  X509_STORE_set_flags(SSL_CTX_get_cert_store(context), X509_V_FLAG_PARTIAL_CHAIN);
  return std::shared_ptr<const TlsContext>(std::move(made));
}

Status TlsContext::trust_only(const std::string& certificate) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> file(BIO_new_file(certificate.c_str(), "r"),
                                                       BIO_free);
  if (file != nullptr) {
    own_certificate_.reset(PEM_read_bio_X509(file.get(), nullptr, no_passphrase, nullptr));
  }
  if (own_certificate_ == nullptr) {
    return invalid_argument("cannot use the TLS certificate '" + certificate +
                            "': " + take_error());
  }
  SSL_CTX_set_cert_verify_callback(context_.get(), has_own_certificate, own_certificate_.get());
  return Status();
}

int TlsContext::has_own_certificate(X509_STORE_CTX* chain, void* certificate) {
  const X509* shown = X509_STORE_CTX_get0_cert(chain);
  const bool own = shown != nullptr && X509_cmp(shown, static_cast<X509*>(certificate)) == 0;
  X509_STORE_CTX_set_error(chain, own ? X509_V_OK : X509_V_ERR_CERT_UNTRUSTED);
  return own ? 1 : 0;
}

TlsSession::TlsSession(std::shared_ptr<const TlsContext> context, int fd)
    : context_(std::move(context)), session_(SSL_new(context_->get())) {
  BIO* bio = BIO_new(context_->transport());
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(fd)));
  BIO_set_init(bio, 1);
  SSL_set_bio(session_.get(), bio, bio);
  SSL_set_accept_state(session_.get());
}

TlsSession::TlsSession(std::shared_ptr<const TlsContext> context, int fd, const std::string& host)
    : TlsSession(std::move(context), fd) {
  SSL* session = session_.get();
  SSL_set_connect_state(session);
  SSL_set_alpn_protos(session, reinterpret_cast<const unsigned char*>(kHttp11.data()),
                      kHttp11.size());
  X509_VERIFY_PARAM* wanted = SSL_get0_param(session);
  if (X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str()) != 1) {  // no address: a name
    SSL_set_tlsext_host_name(session, host.c_str());
    X509_VERIFY_PARAM_set1_host(wanted, host.data(), host.size());
  }
  ERR_clear_error();
}

std::string TlsSession::problem() const {
  const long verdict = SSL_get_verify_result(session_.get());
  if (verdict != X509_V_OK) {
    return std::string("the server's certificate is not trusted: ") +
           X509_verify_cert_error_string(verdict) + context_->hint();
  }
  if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_WRONG_VERSION_NUMBER) {
    ERR_clear_error();
    return "the server does not speak TLS; use http://";
  }
  return ERR_peek_error() == 0 ? "the connection broke" : "TLS: " + take_error();
}

TlsSession::Outcome TlsSession::outcome_of(int result) const {
  switch (SSL_get_error(session_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return Outcome::kWantRead;
    case SSL_ERROR_WANT_WRITE:
      return Outcome::kWantWrite;
    case SSL_ERROR_ZERO_RETURN:
      return Outcome::kEnd;
    default:
      return ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_HTTP_REQUEST ? Outcome::kPlainHttp
                                                                         : Outcome::kFailed;
  }
}

TlsSession::Moved TlsSession::read(std::span<char> into) {
  ERR_clear_error();
  Moved moved;
  const int result = SSL_read_ex(session_.get(), into.data(), into.size(), &moved.bytes);
  moved.outcome = result == 1 ? Outcome::kDone : outcome_of(result);
  return moved;
}

TlsSession::Moved TlsSession::write(std::string_view bytes) {
  ERR_clear_error();
  Moved moved;
  const int result = SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &moved.bytes);
  moved.outcome = result == 1 ? Outcome::kDone : outcome_of(result);
  return moved;
}

void TlsSession::end() {
  ERR_clear_error();
  if (established()) {
    SSL_shutdown(session_.get());
  }
}

}  // namespace baton::http
