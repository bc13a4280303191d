#pragma once

// Values from JSON: messages, tools and template arguments of a request.

#include <boost/json/fwd.hpp>

#include "common/base/status.h"
#include "common/tokenizer/chat_template/value.h"

namespace baton::chat_template {

// invalid_argument for integers beyond 64 bit signed, text that is not UTF-8, and nesting deeper
// than kMaxValueDepth.
Result<Value> value_from_json(const boost::json::value& json);

}  // namespace baton::chat_template
