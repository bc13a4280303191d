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
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (!line.empty() && line.back() == '\r') {
      line.pop_back();
    }
    if (line.empty() || line[0] == '#') {
      continue;
    }
    Result<Entry> entry = parse(line);
    if (!entry.ok()) {
      return invalid_argument("router.api_keys_file: '" + path + "' line " +
                              std::to_string(number) + ": " + entry.status().message());
    }
    keys.push_back(std::move(entry).value());
  }
  if (keys.empty()) {
    return invalid_argument("router.api_keys_file: '" + path + "' has no key");
  }
  return keys;
}

// The key itself is not repeated in messages.
Result<ApiKeys::Entry> ApiKeys::parse(std::string_view line) {
  constexpr std::string_view kSpaces = " \t";
  const auto next_word = [&line, kSpaces] {
    line.remove_prefix(std::min(line.size(), line.find_first_not_of(kSpaces)));
    const std::string_view word = line.substr(0, line.find_first_of(kSpaces));
    line.remove_prefix(word.size());
    return word;
  };
  Entry entry;
  entry.key = next_word();
  if (entry.key.empty()) {
    return invalid_argument("there is no key");
  }
  for (std::string_view word = next_word(); !word.empty(); word = next_word()) {
    if (word != "priority") {
      return invalid_argument("after the key only 'priority' may stand, not '" + std::string(word) +
                              "'");
    }
    entry.rights.priority = true;
  }
  return entry;
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

std::optional<KeyRights> ApiKeys::rights(std::string_view key) {
  if (keyless()) {
    return KeyRights();
  }
  look();
  std::shared_ptr<const Keys> keys;
  {
    const MutexLock lock(mutex_);
    keys = keys_;
  }
  std::optional<KeyRights> found;
  for (const Entry& known : *keys) {
    if (equal_in_constant_time(key, known.key)) {
      found = known.rights;
      found->others = keys->size() > 1;
    }
  }
  return found;
}

}  // namespace baton::router
