#include "router/api_keys.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "common/base/log.h"

namespace baton::router {
namespace {

// Compares all bytes whatever differs, so that time tells nothing about a key.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned different = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    different |=
        static_cast<unsigned>(a[i]) ^ static_cast<unsigned>(b[i % std::max<size_t>(1, b.size())]);
  }
  return different == 0;
}

}  // namespace

Result<std::unique_ptr<ApiKeys>> ApiKeys::open(std::string path, const Clock& clock) {
  std::unique_ptr<ApiKeys> made(new ApiKeys(std::move(path), clock));
  if (made->keyless()) {
    return made;
  }
  BATON_ASSIGN_OR_RETURN(Keys keys, read(made->path_));
  const MutexLock lock(made->mutex_);
  made->keys_ = std::make_shared<const Keys>(std::move(keys));
  return made;
}

Result<ApiKeys::Keys> ApiKeys::read(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return not_found("router.api_keys_file: cannot read '" + path + "'");
  }
  Keys keys;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') {
      line.pop_back();
    }
    if (!line.empty() && line[0] != '#') {
      keys.push_back(line);
    }
  }
  if (keys.empty()) {
    return invalid_argument("router.api_keys_file: '" + path + "' has no key");
  }
  return keys;
}

// The file is read without the lock: others go on with the keys as they were.
void ApiKeys::look() {
  if (!watched_.changed()) {
    return;
  }
  Result<Keys> keys = read(path_);
  if (!keys.ok()) {
    log_warn("API keys stay as they were", {{"reason", keys.status().message()}});
    return;
  }
  log_info("API keys read again", {{"keys", keys->size()}});
  const MutexLock lock(mutex_);
  keys_ = std::make_shared<const Keys>(std::move(keys).value());
}

bool ApiKeys::accepts(std::string_view key) {
  if (keyless()) {
    return true;
  }
  look();
  std::shared_ptr<const Keys> keys;
  {
    const MutexLock lock(mutex_);
    keys = keys_;
  }
  bool accepted = false;
  for (const std::string& known : *keys) {
    accepted |= equal_in_constant_time(key, known);
  }
  return accepted;
}

}  // namespace baton::router
