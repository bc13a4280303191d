#pragma once

// Python's strftime with the C locale's names, for the date in a system prompt.

#include <chrono>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace baton::chat_template {

// unsupported for a directive that is not here, by name. Times are UTC, so that every router writes
// the same prompt.
Result<std::string> format_time(std::string_view format, std::chrono::sys_seconds time);

}  // namespace baton::chat_template
