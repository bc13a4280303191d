#include "common/model_file/json_text.h"

#include <boost/json.hpp>

#include "common/model_file/model_file.h"

namespace baton::model_file {

namespace json = boost::json;

Result<json::value> parse_json(std::string_view text) {
  json::stream_parser parser;
  boost::system::error_code error;
  const size_t read = parser.write_some(text.data(), text.size(), error);
  if (!error && read == text.size()) {
    parser.finish(error);
  }
  if (error || read < text.size()) {
    return invalid_argument("is no JSON from byte " + std::to_string(read) + " on");
  }
  return parser.release();
}

std::optional<uint64_t> whole_number(const json::value& value) {
  if (value.is_uint64()) {
    return value.get_uint64();
  }
  if (value.is_int64() && value.get_int64() >= 0) {
    return static_cast<uint64_t>(value.get_int64());
  }
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value.is_double() && value.get_double() >= 0 && value.get_double() <= kExact) {
    const auto whole = static_cast<uint64_t>(value.get_double());
    return static_cast<double>(whole) == value.get_double() ? std::optional(whole) : std::nullopt;
  }
  return std::nullopt;
}

std::string shown_json(const json::value& value) {
  if (const json::string* text = value.if_string()) {
    return quoted(*text);
  }
  if (value.is_object() || value.is_array()) {
    return value.is_object() ? "an object" : "an array";
  }
  return json::serialize(value);
}

}  // namespace baton::model_file
