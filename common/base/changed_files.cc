#include "common/base/changed_files.h"

#include <utility>

namespace baton {
namespace {

constexpr Duration kLookEvery = 1s;

}  // namespace

bool ChangedFiles::Stamp::operator==(const Stamp& other) const {
  return inode == other.inode && size == other.size && changed.tv_sec == other.changed.tv_sec &&
         changed.tv_nsec == other.changed.tv_nsec;
}

ChangedFiles::ChangedFiles(std::vector<std::string> paths, const Clock& clock)
    : paths_(std::move(paths)),
      clock_(clock),
      stamps_(stamps_now()),
      next_look_(clock.now() + kLookEvery) {}

std::vector<ChangedFiles::Stamp> ChangedFiles::stamps_now() const {
  std::vector<Stamp> stamps;
  for (const std::string& path : paths_) {
    struct stat found{};
    stamps.push_back(stat(path.c_str(), &found) == 0
                         ? Stamp{found.st_ino, found.st_size, found.st_mtim}
                         : Stamp{});
  }
  return stamps;
}

bool ChangedFiles::changed() {
  {
    const MutexLock lock(mutex_);
    const TimePoint now = clock_.now();
    if (now < next_look_) {
      return false;
    }
    next_look_ = now + kLookEvery;
  }
  std::vector<Stamp> stamps = stamps_now();
  const MutexLock lock(mutex_);
  return stamps != std::exchange(stamps_, stamps);
}

}  // namespace baton
