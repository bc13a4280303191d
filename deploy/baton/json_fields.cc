#include "deploy/baton/json_fields.h"

#include <cmath>
#include <utility>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

namespace baton::cli {

namespace json = boost::json;

Result<json::object> parse_object(std::string_view text) {
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  if (error || !value.is_object()) {
    return internal_error("the server's answer is no JSON object");
  }
  return std::move(value.get_object());
}

std::string text_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

std::optional<double> optional_number_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_number()) {
    return std::nullopt;
  }
  boost::system::error_code error;
  const double number = value->to_number<double>(error);
  return error || !std::isfinite(number) ? std::nullopt : std::optional<double>(number);
}

double number_of(const json::object& object, std::string_view key) {
  return optional_number_of(object, key).value_or(0);
}

int64_t integer_of(const json::object& object, std::string_view key) {
  const double number = number_of(object, key);
  constexpr double kExact = 9007199254740992.0;  // 2^53: beyond it a cast could overflow
  return std::abs(number) <= kExact ? static_cast<int64_t>(number) : 0;
}

const json::object* object_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr ? value->if_object() : nullptr;
}

const json::array* array_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr ? value->if_array() : nullptr;
}

}  // namespace baton::cli
