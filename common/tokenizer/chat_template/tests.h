#pragma once

// The tests of jinja2 that templates may use: value is name(arguments).

#include <string_view>

#include "common/base/status.h"
#include "common/tokenizer/chat_template/arguments.h"
#include "common/tokenizer/chat_template/budget.h"
#include "common/tokenizer/chat_template/value.h"

namespace baton::chat_template {

using TestFunction = Result<bool> (*)(const Value& value, const Arguments& arguments,
                                      Budget& budget);

// Null for a test that is not supported.
TestFunction find_test(std::string_view name);

}  // namespace baton::chat_template
