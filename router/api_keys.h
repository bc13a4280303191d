#pragma once

// The API keys of clients, from a file that may change while the router runs: one key a line; empty
// lines and those that begin with '#' are skipped.
//
// accepts() may be called from any thread. At most once a second one of its callers looks whether
// the file is another one than before and reads it. A file that cannot be read, or that has no key,
// changes nothing and is logged, so that a bad edit locks nobody out and lets nobody in.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/changed_files.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"

namespace baton::router {

class ApiKeys {
 public:
  // An empty path: no key is asked for. not_found or invalid_argument naming the file otherwise.
  // `clock` outlives the keys.
  static Result<std::unique_ptr<ApiKeys>> open(std::string path, const Clock& clock);

  // Nobody needs a key. Never changes.
  bool keyless() const { return path_.empty(); }

  // Takes the same time whatever the key is.
  bool accepts(std::string_view key);

 private:
  using Keys = std::vector<std::string>;

  ApiKeys(std::string path, const Clock& clock)
      : path_(std::move(path)), watched_({path_}, clock) {}
  static Result<Keys> read(const std::string& path);
  void look();

  const std::string path_;
  ChangedFiles watched_;
  Mutex mutex_;
  std::shared_ptr<const Keys> keys_ GUARDED_BY(mutex_);
};

}  // namespace baton::router
