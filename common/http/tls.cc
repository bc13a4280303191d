#include "common/http/tls.h"

#include <utility>

#include "common/base/log.h"
#include "common/http/tls_session.h"

namespace baton::http {
TlsCertificate::TlsCertificate(TlsFiles files, const Clock& clock)
    : files_(std::move(files)), watched_({files_.certificate, files_.key}, clock) {}

TlsCertificate::~TlsCertificate() = default;

Result<std::unique_ptr<TlsCertificate>> TlsCertificate::open(TlsFiles files, const Clock& clock) {
  std::unique_ptr<TlsCertificate> made(new TlsCertificate(std::move(files), clock));
  BATON_ASSIGN_OR_RETURN(std::shared_ptr<const TlsContext> context, TlsContext::read(made->files_));
  const MutexLock lock(made->mutex_);
  made->context_ = std::move(context);
  return made;
}

// The files are read without the lock: others go on with what was.
void TlsCertificate::look() {
  if (!watched_.changed()) {
    return;
  }
  Result<std::shared_ptr<const TlsContext>> context = TlsContext::read(files_);
  if (!context.ok()) {
    log_warn("the TLS certificate stays as it was", {{"reason", context.status().message()}});
    return;
  }
  log_info("TLS certificate read again", {{"file", files_.certificate}});
  const MutexLock lock(mutex_);
  context_ = *std::move(context);
}

std::shared_ptr<const TlsContext> TlsCertificate::current() {
  look();
  const MutexLock lock(mutex_);
  return context_;
}

}  // namespace baton::http
