#pragma once

// The certificate and the key that a Server speaks TLS with (1.2 and 1.3), from PEM files that may
// change while it runs.

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

}  // namespace baton::http
