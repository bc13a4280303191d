#pragma once

// TLS (1.2 and 1.3): the certificate and the key that a Server speaks it with, from PEM files that
// may change while it runs, and whom a client trusts.

#include <memory>
#include <string>

#include "common/base/changed_files.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"

namespace baton::http {

class TlsContext;

struct TlsFiles {
  std::string certificate;  // the server's own first, then those that lead to the root
  std::string key;          // without a passphrase
};

// Thread-safe. At most once a second a new connection looks whether one of the files is another one
// than before, and reads both. Files that cannot be used, or that do not belong together (yet),
// change nothing and are logged. Connections keep what they began with.
class TlsCertificate {
 public:
  // not_found or invalid_argument naming the file. `clock` outlives the certificate.
  static Result<std::unique_ptr<TlsCertificate>> open(TlsFiles files, const Clock& clock);
  ~TlsCertificate();

  std::shared_ptr<const TlsContext> current();

 private:
  TlsCertificate(TlsFiles files, const Clock& clock);
  void look();

  const TlsFiles files_;
  ChangedFiles watched_;
  Mutex mutex_;
  std::shared_ptr<const TlsContext> context_ GUARDED_BY(mutex_);
};

// Which servers a client takes for what they say they are.
struct TlsTrust {
  // Certificates of authorities, PEM; empty: those of the system. The server's certificate must
  // lead to one of them and be for the host of the url.
  std::string authorities{};
  // Not empty: the server must have just the first certificate of this file, whatever its name and
  // whoever signed it. For a server of our own.
  std::string own_certificate{};
  std::string hint{};  // what to do about a certificate that is not trusted, in the caller's words
};

}  // namespace baton::http
