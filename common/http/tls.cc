#include "common/http/tls.h"

#include <utility>

#include "common/base/log.h"
#include "common/http/tls_session.h"

namespace baton::http {
namespace {

constexpr Duration kLookEvery = 1s;

}  // namespace

bool TlsCertificate::Stamp::operator==(const Stamp& other) const {
  return inode == other.inode && size == other.size && changed.tv_sec == other.changed.tv_sec &&
         changed.tv_nsec == other.changed.tv_nsec;
}

TlsCertificate::TlsCertificate(TlsFiles files, const Clock& clock)
    : files_(std::move(files)), clock_(clock) {}

TlsCertificate::~TlsCertificate() = default;

Result<std::unique_ptr<TlsCertificate>> TlsCertificate::open(TlsFiles files, const Clock& clock) {
  std::unique_ptr<TlsCertificate> made(new TlsCertificate(std::move(files), clock));
  const Stamps stamps{stamp_of(made->files_.certificate), stamp_of(made->files_.key)};
  BATON_ASSIGN_OR_RETURN(std::shared_ptr<const TlsContext> context, TlsContext::read(made->files_));
  const MutexLock lock(made->mutex_);
  made->context_ = std::move(context);
  made->stamps_ = stamps;
  made->next_look_ = clock.now() + kLookEvery;
  return made;
}

TlsCertificate::Stamp TlsCertificate::stamp_of(const std::string& path) {
  struct stat found{};
  if (stat(path.c_str(), &found) != 0) {
    return {};
  }
  return {found.st_ino, found.st_size, found.st_mtim};
}

// The files are read without the lock: others go on with what was.
void TlsCertificate::look() {
  {
    const MutexLock lock(mutex_);
    const TimePoint now = clock_.now();
    if (now < next_look_) {
      return;
    }
    next_look_ = now + kLookEvery;
  }
  const Stamps stamps{stamp_of(files_.certificate), stamp_of(files_.key)};
  {
    const MutexLock lock(mutex_);
    if (stamps == std::exchange(stamps_, stamps)) {
      return;
    }
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
