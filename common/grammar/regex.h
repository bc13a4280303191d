#pragma once

// Regular expressions as expressions of a grammar. What Python's re, Rust's regex and JavaScript
// have in common:
//
//   .  [a-z]  [^a-z]  \d \D \w \W \s \S  \n \r \t \f \v \0  \xHH \uHHHH \u{H...}  \. and other
//   marks
//   (...)  (?:...)  (?<name>...)  a|b  *  +  ?  {m}  {m,}  {m,n}, each also lazy (the same texts)
//   ^ at the beginning and $ at the end of the whole
//
// The classes are ASCII; `.` is any code point but a line feed. What else there is (look-around,
// back-references, \b, flags, possessive repeats, Unicode classes) is refused by name.

#include <string_view>

#include "common/base/status.h"
#include "common/grammar/expressions.h"

namespace baton::grammar {

enum class RegexMatch : uint8_t {
  kWhole,  // the whole text matches
  kPart,   // some part of the text does: what JSON schema's `pattern` asks
};
struct RegexOptions {
  RegexMatch match = RegexMatch::kWhole;
  TextForm form = TextForm::kPlain;
};

// invalid_argument or unsupported, with the place; nesting is limited to kMaxRegexDepth.
inline constexpr int kMaxRegexDepth = 100;
inline constexpr int32_t kMaxRepeat = 10'000;
Result<ExprId> read_regex(std::string_view text, const RegexOptions& options, Expressions& out);

}  // namespace baton::grammar
