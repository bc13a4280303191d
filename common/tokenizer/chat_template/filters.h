#pragma once

// The filters of jinja2 that templates may use: value|name(arguments).

#include <string_view>

#include "common/base/status.h"
#include "common/tokenizer/chat_template/arguments.h"
#include "common/tokenizer/chat_template/runtime.h"
#include "common/tokenizer/chat_template/value.h"

namespace baton::chat_template {

using FilterFunction = Result<Value> (*)(const Value& input, const Arguments& arguments,
                                         Runtime& runtime);

// Null for a filter that is not supported.
FilterFunction find_filter(std::string_view name);

// The parts of that table; each null when the name is not its own.
FilterFunction find_text_filter(std::string_view name);
FilterFunction find_sequence_filter(std::string_view name);
FilterFunction find_selection_filter(std::string_view name);

}  // namespace baton::chat_template
