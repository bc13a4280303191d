#pragma once

// Classes of code points as regular expressions and grammars write them.

#include <optional>
#include <vector>

#include "common/base/status.h"
#include "common/grammar/expressions.h"
#include "common/grammar/text_reader.h"

namespace baton::grammar {

// The ranges of \d, \D, \w, \W, \s, \S (ASCII) by their letter.
std::optional<std::vector<CodeRange>> class_of(char letter);

// What follows a backslash, as one code point: \n, \xHH, \uHHHH, \u{...}, or a mark for itself.
// Refuses letters and digits without such a meaning.
Result<char32_t> read_escape(TextReader& reader);

// After "[": up to and with "]".
Result<std::vector<CodeRange>> read_class(TextReader& reader);

}  // namespace baton::grammar
