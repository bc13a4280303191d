#pragma once

// json.dumps of a value, which is what `tojson` is in a chat template.

#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/tokenizer/chat_template/budget.h"
#include "common/tokenizer/chat_template/value.h"

namespace baton::chat_template {

struct JsonStyle {
  std::optional<std::string> indent;  // text of one level; absent writes one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
};

Result<std::string> to_json_text(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace baton::chat_template
