#pragma once

// Escapes inside a quoted string of a template: Python's.

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace baton::chat_template {

// The text between the quotes, unescaped. invalid_argument for a broken escape, unsupported for
// \N{...} and surrogates.
Result<std::string> unescape_literal(std::string_view text);

}  // namespace baton::chat_template
