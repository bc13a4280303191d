#pragma once

// Methods of Python's str.

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/tokenizer/chat_template/arguments.h"
#include "common/tokenizer/chat_template/budget.h"
#include "common/tokenizer/chat_template/value.h"

namespace baton::chat_template {

// Whether Python's str has it, supported or not.
bool is_string_method(std::string_view name);

// unsupported for those of Python's that are not here.
Result<Value> call_string_method(const std::string& self, const std::string& name,
                                 const Arguments& arguments, Budget& budget);

// Spends what str.replace costs at most.
Status spend_replace(std::string_view text, std::string_view from, std::string_view to,
                     Budget& budget);

// str.title: words start after characters that have no case.
std::string title_words(std::string_view text);
bool is_lower_text(std::string_view text);
bool is_upper_text(std::string_view text);

}  // namespace baton::chat_template
