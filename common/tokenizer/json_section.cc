#include "common/tokenizer/json_section.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <limits>
#include <utility>

namespace baton::tokenizer {
namespace {

constexpr size_t kShownBytes = 200;

}  // namespace

std::string shown(const boost::json::value& value) {
  if (value.is_object() || value.is_array()) {
    return value.is_object() ? "an object" : "a list";
  }
  std::string text = boost::json::serialize(value);
  if (text.size() > kShownBytes) {
    size_t end = kShownBytes;
    while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) {
      --end;
    }
    text = text.substr(0, end) + "...";
  }
  return text;
}

Result<JsonSection> JsonSection::of(std::string path, const boost::json::value& value) {
  if (!value.is_object()) {
    return invalid_argument(path + " is " + shown(value) + ", but must be an object");
  }
  return JsonSection(std::move(path), value.get_object());
}

std::string JsonSection::path_of(std::string_view key) const {
  const bool is_root = path_.ends_with(".json");
  return path_ + (is_root ? ": " : ".") + std::string(key);
}

const boost::json::value* JsonSection::find(std::string_view key) const {
  const boost::json::value* value = object_->if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Status JsonSection::wrong(std::string_view key, std::string_view expected) const {
  const boost::json::value* value = find(key);
  return invalid_argument(path_of(key) + " is " + (value == nullptr ? "missing" : shown(*value)) +
                          ", but must be " + std::string(expected));
}

Result<std::optional<std::string>> JsonSection::find_text(std::string_view key) const {
  const boost::json::value* value = find(key);
  if (value == nullptr) {
    return std::optional<std::string>();
  }
  if (!value->is_string()) {
    return wrong(key, "a string");
  }
  return std::optional(std::string(std::string_view(value->get_string())));
}

Result<std::optional<bool>> JsonSection::find_bool(std::string_view key) const {
  const boost::json::value* value = find(key);
  if (value == nullptr) {
    return std::optional<bool>();
  }
  if (!value->is_bool()) {
    return wrong(key, "true or false");
  }
  return std::optional(value->get_bool());
}

Result<std::string> JsonSection::text(std::string_view key) const {
  BATON_ASSIGN_OR_RETURN(std::optional<std::string> found, find_text(key));
  if (!found.has_value()) {
    return wrong(key, "a string");
  }
  return std::move(*found);
}

Result<const boost::json::object*> JsonSection::object(std::string_view key) const {
  const boost::json::value* value = find(key);
  if (value == nullptr || !value->is_object()) {
    return wrong(key, "an object");
  }
  return &value->get_object();
}

Result<const boost::json::array*> JsonSection::array(std::string_view key) const {
  const boost::json::value* value = find(key);
  if (value == nullptr || !value->is_array()) {
    return wrong(key, "a list");
  }
  return &value->get_array();
}

Result<int32_t> JsonSection::number(std::string_view key) const {
  const boost::json::value* value = find(key);
  if (value == nullptr || !value->is_int64() || value->get_int64() < 0 ||
      value->get_int64() > std::numeric_limits<int32_t>::max()) {
    return wrong(key, "a whole number from 0 to 2147483647");
  }
  return static_cast<int32_t>(value->get_int64());
}

Status JsonSection::only(std::initializer_list<std::string_view> known) const {
  for (const auto& field : *object_) {
    const std::string_view key = field.key();
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      std::string names;
      for (const std::string_view name : known) {
        names += (names.empty() ? "" : ", ") + std::string(name);
      }
      return refuse(key, "the keys " + names);
    }
  }
  return {};
}

Status JsonSection::refuse(std::string_view key, std::string_view supported) const {
  const boost::json::value* value = find(key);
  return unsupported(path_of(key) + " is " + (value == nullptr ? "missing" : shown(*value)) +
                     "; supported: " + std::string(supported));
}

Status JsonSection::expect_bool(std::string_view key, bool value) const {
  BATON_ASSIGN_OR_RETURN(const std::optional<bool> found, find_bool(key));
  return found.value_or(value) == value ? Status() : refuse(key, value ? "true" : "false");
}

Status JsonSection::expect_text(std::string_view key, std::string_view value) const {
  BATON_ASSIGN_OR_RETURN(const std::optional<std::string> found, find_text(key));
  return !found.has_value() || *found == value
             ? Status()
             : refuse(key, value.empty() ? "an empty text" : "\"" + std::string(value) + "\"");
}

}  // namespace baton::tokenizer
