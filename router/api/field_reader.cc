#include "router/api/field_reader.h"

#include <algorithm>
#include <boost/json/value.hpp>
#include <cmath>

namespace baton::router {
namespace {

std::string_view kind_name(const boost::json::value& value) {
  switch (value.kind()) {
    case boost::json::kind::null:
      return "null";
    case boost::json::kind::bool_:
      return "a boolean";
    case boost::json::kind::int64:
    case boost::json::kind::uint64:
    case boost::json::kind::double_:
      return "a number";
    case boost::json::kind::string:
      return "a string";
    case boost::json::kind::array:
      return "a list";
    case boost::json::kind::object:
      return "an object";
  }
  return "something else";
}

std::string wrong_type(std::string_view name, std::string_view want,
                       const boost::json::value& value) {
  return "'" + std::string(name) + "' must be " + std::string(want) + ", not " +
         std::string(kind_name(value));
}

// 5.0 is an integer to most clients' JSON writers.
std::optional<int64_t> as_integer(const boost::json::value& value) {
  if (value.is_int64()) {
    return value.get_int64();
  }
  if (value.is_double()) {
    const double v = value.get_double();
    if (std::nearbyint(v) == v && std::abs(v) < 9e15) {
      return static_cast<int64_t>(v);
    }
  }
  return std::nullopt;
}

std::string trimmed(double v) {
  std::string text = std::to_string(v);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') {
    text.pop_back();
  }
  return text;
}

}  // namespace

std::string shortened(std::string_view text) {
  constexpr size_t kShown = 100;
  return text.size() <= kShown ? std::string(text) : std::string(text.substr(0, kShown)) + "...";
}

void FieldReader::fail(std::string_view field, std::string message) {
  if (status_.ok()) {
    status_ = invalid_argument(std::move(message));
    param_ = field;
  }
}

const boost::json::value* FieldReader::raw(std::string_view name) {
  seen_.push_back(name);
  const boost::json::value* value = object_.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::optional<double> FieldReader::number(std::string_view name, double low, double high) {
  const boost::json::value* value = raw(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_number()) {
    fail(name, wrong_type(name, "a number", *value));
    return std::nullopt;
  }
  const double v = value->to_number<double>();
  if (!std::isfinite(v) || v < low || v > high) {
    fail(name,
         "'" + std::string(name) + "' must be between " + trimmed(low) + " and " + trimmed(high));
    return std::nullopt;
  }
  return v;
}

std::optional<int64_t> FieldReader::integer(std::string_view name, int64_t low, int64_t high) {
  const boost::json::value* value = raw(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  const std::optional<int64_t> v = as_integer(*value);
  if (!v && !value->is_uint64()) {
    fail(name, wrong_type(name, "an integer", *value));
    return std::nullopt;
  }
  if (!v || *v < low || *v > high) {
    fail(name, "'" + std::string(name) + "' must be between " + std::to_string(low) + " and " +
                   std::to_string(high));
    return std::nullopt;
  }
  return v;
}

std::optional<bool> FieldReader::boolean(std::string_view name) {
  const boost::json::value* value = raw(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_bool()) {
    fail(name, wrong_type(name, "a boolean", *value));
    return std::nullopt;
  }
  return value->get_bool();
}

std::optional<std::string> FieldReader::text(std::string_view name) {
  const boost::json::value* value = raw(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_string()) {
    fail(name, wrong_type(name, "a string", *value));
    return std::nullopt;
  }
  return std::string(value->get_string());
}

std::vector<std::string> FieldReader::texts(std::string_view name, size_t max_items) {
  const boost::json::value* value = raw(name);
  if (value == nullptr) {
    return {};
  }
  if (value->is_string()) {
    return {std::string(value->get_string())};
  }
  if (!value->is_array()) {
    fail(name, wrong_type(name, "a string or a list of strings", *value));
    return {};
  }
  if (value->get_array().size() > max_items) {
    fail(name,
         "'" + std::string(name) + "' has more than " + std::to_string(max_items) + " entries");
    return {};
  }
  std::vector<std::string> out;
  for (const boost::json::value& item : value->get_array()) {
    if (!item.is_string()) {
      fail(name, wrong_type(name, "a list of strings", item));
      return {};
    }
    out.emplace_back(item.get_string());
  }
  return out;
}

std::vector<int32_t> FieldReader::token_ids(std::string_view name, size_t max_items,
                                            int32_t vocab) {
  const boost::json::value* value = raw(name);
  if (value == nullptr) {
    return {};
  }
  if (!value->is_array()) {
    fail(name, wrong_type(name, "a list of token ids", *value));
    return {};
  }
  if (value->get_array().size() > max_items) {
    fail(name,
         "'" + std::string(name) + "' has more than " + std::to_string(max_items) + " entries");
    return {};
  }
  std::vector<int32_t> out;
  for (const boost::json::value& item : value->get_array()) {
    if (!item.is_int64() || item.get_int64() < 0 || item.get_int64() >= vocab) {
      fail(name, "'" + std::string(name) + "' must hold token ids from 0 to " +
                     std::to_string(vocab - 1));
      return {};
    }
    out.push_back(static_cast<int32_t>(item.get_int64()));
  }
  return out;
}

void FieldReader::ignore(std::initializer_list<std::string_view> names) {
  seen_.insert(seen_.end(), names.begin(), names.end());
}

void FieldReader::refuse(std::string_view name, std::string_view why) {
  if (raw(name) != nullptr) {
    fail(name, "'" + std::string(name) + "' is not supported: " + std::string(why));
  }
}

std::vector<std::string> FieldReader::unknown(size_t max_items) const {
  std::vector<std::string> names;
  for (const auto& field : object_) {
    if (names.size() == max_items) {
      break;
    }
    if (std::find(seen_.begin(), seen_.end(), std::string_view(field.key())) == seen_.end()) {
      names.emplace_back(field.key());
    }
  }
  return names;
}

}  // namespace baton::router
