#pragma once

// Methods of Python's str, dict, list and tuple, and of the loop variable.

#include <string_view>

#include "common/base/status.h"
#include "common/tokenizer/chat_template/arguments.h"
#include "common/tokenizer/chat_template/runtime.h"
#include "common/tokenizer/chat_template/value.h"

namespace baton::chat_template {

enum class MethodAccess : uint8_t {
  kNone,    // the type has no such attribute
  kSafe,    // can be called (or is refused by name when called)
  kUnsafe,  // exists, but jinja2's immutable sandbox hides it
};
MethodAccess method_access(const Value& value, std::string_view name);

// unsupported for a method of Python's that is not here, by its name.
Result<Value> call_method(const Method& method, const Arguments& arguments, Runtime& runtime);

}  // namespace baton::chat_template
