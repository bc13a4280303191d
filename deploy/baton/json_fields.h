#pragma once

// Reading JSON that other programs sent: what is absent or of another type is an empty value, never
// a failure.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "common/base/status.h"

namespace baton::cli {

// kInternal when `text` is no JSON object.
Result<boost::json::object> parse_object(std::string_view text);

std::string text_of(const boost::json::object& object, std::string_view key);
std::optional<double> optional_number_of(const boost::json::object& object, std::string_view key);
double number_of(const boost::json::object& object, std::string_view key);
int64_t integer_of(const boost::json::object& object, std::string_view key);
// Null when there is none.
const boost::json::object* object_of(const boost::json::object& object, std::string_view key);
const boost::json::array* array_of(const boost::json::object& object, std::string_view key);

}  // namespace baton::cli
