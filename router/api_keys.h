#pragma once

// The API keys of clients, from a file that may change while the router runs: one key a line, after
// it, with spaces between, what its holder may do beyond asking ("priority"); empty lines and those
// that begin with '#' are skipped.
//
// rights() may be called from any thread. At most once a second one of its callers looks whether
// the file is another one than before and reads it. A file that cannot be read, or that has no key,
// changes nothing and is logged, so that a bad edit locks nobody out and lets nobody in.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/changed_files.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"

namespace baton::router {

struct KeyRights {
  bool priority = false;  // may say how urgent a request is
  bool others = false;    // there are other keys
};

class ApiKeys {
 public:
  // An empty path: no key is asked for. not_found or invalid_argument naming the file otherwise.
  // `clock` outlives the keys.
  static Result<std::unique_ptr<ApiKeys>> open(std::string path, const Clock& clock);

  // Nobody needs a key. Never changes.
  bool keyless() const { return path_.empty(); }

  // None: the key is not of the file. Takes the same time whatever the key is. Where nobody needs a
  // key everybody has the same rights: none of those that a key can give.
  std::optional<KeyRights> rights(std::string_view key);

 private:
  struct Entry {
    std::string key;
    KeyRights rights;
  };
  using Keys = std::vector<Entry>;

  ApiKeys(std::string path, const Clock& clock)
      : path_(std::move(path)), watched_({path_}, clock) {}
  static Result<Keys> read(const std::string& path);
  static Result<Entry> parse(std::string_view line);
  void look();

  const std::string path_;
  ChangedFiles watched_;
  Mutex mutex_;
  std::shared_ptr<const Keys> keys_ GUARDED_BY(mutex_);
};

}  // namespace baton::router
