#pragma once

// An object of a JSON file, read strictly: each error is one line that names the key by its path in
// the file, the value that is there and what would be right.

#include <boost/json/object.hpp>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace baton::tokenizer {

// `value` in one line for a message, cut when long.
std::string shown(const boost::json::value& value);

// Views an object, which outlives it.
class JsonSection final {
 public:
  // `path` is how messages name the object: "tokenizer.json: model".
  JsonSection(std::string path, const boost::json::object& object)
      : path_(std::move(path)), object_(&object) {}
  // invalid_argument: `value` is no object.
  static Result<JsonSection> of(std::string path, const boost::json::value& value);

  const std::string& path() const { return path_; }
  // "tokenizer.json: model.vocab"
  std::string path_of(std::string_view key) const;

  // Null is absent in all of them.
  const boost::json::value* find(std::string_view key) const;
  Result<std::optional<std::string>> find_text(std::string_view key) const;
  Result<std::optional<bool>> find_bool(std::string_view key) const;
  // invalid_argument: absent or of another type.
  Result<std::string> text(std::string_view key) const;
  Result<const boost::json::object*> object(std::string_view key) const;
  Result<const boost::json::array*> array(std::string_view key) const;
  // 0 to INT32_MAX
  Result<int32_t> number(std::string_view key) const;

  // unsupported: a key that is not listed, by name.
  Status only(std::initializer_list<std::string_view> known) const;
  // unsupported: "PATH.key is VALUE; supported: SUPPORTED".
  Status refuse(std::string_view key, std::string_view supported) const;
  // Refuses unless `key` is absent or `value`.
  Status expect_bool(std::string_view key, bool value) const;
  Status expect_text(std::string_view key, std::string_view value) const;

 private:
  Status wrong(std::string_view key, std::string_view expected) const;

  std::string path_;
  const boost::json::object* object_;
};

}  // namespace baton::tokenizer
