#pragma once

// The certificate and the key that a Server speaks TLS with (1.2 and 1.3), from PEM files that may
// change while it runs.

#include <sys/stat.h>

#include <memory>
#include <string>

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
  // What tells one state of a file from another; a renamed file in its place has another inode.
  struct Stamp {
    ino_t inode = 0;
    off_t size = 0;
    timespec changed{};
    bool operator==(const Stamp& other) const;
  };
  struct Stamps {
    Stamp certificate;
    Stamp key;
    bool operator==(const Stamps&) const = default;
  };

  TlsCertificate(TlsFiles files, const Clock& clock);
  static Stamp stamp_of(const std::string& path);
  void look();

  const TlsFiles files_;
  const Clock& clock_;
  Mutex mutex_;
  std::shared_ptr<const TlsContext> context_ GUARDED_BY(mutex_);
  Stamps stamps_ GUARDED_BY(mutex_);
  TimePoint next_look_ GUARDED_BY(mutex_){};
};

}  // namespace baton::http
