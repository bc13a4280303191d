#pragma once

// JSON of model folders, for the readers of this folder alone.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <boost/json/value.hpp>

#include "common/base/status.h"

namespace baton::model_file {

// invalid_argument names the byte; nothing is thrown. Bounded by the text's size.
Result<boost::json::value> parse_json(std::string_view text);

// A whole number >= 0, also one that is written with a fraction of zero.
std::optional<uint64_t> whole_number(const boost::json::value& value);

// For a message: at most 80 characters.
std::string shown_json(const boost::json::value& value);

}  // namespace baton::model_file
