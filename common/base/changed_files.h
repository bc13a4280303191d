#pragma once

// Files that a program reads again while it runs: keys, certificates. Asked before each use, it
// looks at most once a second.

#include <sys/stat.h>

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace baton {

// Thread-safe. Blocking: a stat of each file. A file that cannot be seen counts as one state of it.
class ChangedFiles {
 public:
  // Make it before the files are first read: what changes in between is then seen later. `clock`
  // outlives it.
  ChangedFiles(std::vector<std::string> paths, const Clock& clock);

  // Whether a file is another one than when last asked; true for one caller a change.
  bool changed();

 private:
  // What tells one state of a file from another; a renamed file in its place has another inode.
  struct Stamp {
    ino_t inode = 0;
    off_t size = 0;
    timespec changed{};
    bool operator==(const Stamp& other) const;
  };
  std::vector<Stamp> stamps_now() const;

  const std::vector<std::string> paths_;
  const Clock& clock_;
  Mutex mutex_;
  std::vector<Stamp> stamps_ GUARDED_BY(mutex_);
  TimePoint next_look_ GUARDED_BY(mutex_);
};

}  // namespace baton
