#pragma once

// JSON as expressions: any value, and the pieces that schemas are made of. Whitespace is optional
// and bounded (one space, or line feeds and indentation), and so are digits, so that a model cannot
// go on forever without leaving the grammar; what is written is always JSON.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/grammar/expressions.h"

namespace baton::grammar {

// Bounds of a number; whole numbers.
struct NumberRange {
  std::optional<int64_t> low, high;
  bool low_exclusive = false, high_exclusive = false;
};
// Magnitude up to which bounds may be given.
inline constexpr int64_t kMaxBound = 9'999'999'999'999'999;

// One for each pool of expressions: parts that occur often are rules of their own.
class JsonText {
 public:
  // Makes its rules at once, so rule 0 must be there already.
  explicit JsonText(Expressions& out);

  ExprId space() { return out_.rule(space_); }
  ExprId string_char() { return out_.rule(string_char_); }
  ExprId any_value() { return out_.rule(value_); }
  ExprId any_object() { return out_.rule(object_); }
  ExprId any_array() { return out_.rule(array_); }
  ExprId string(int32_t min_chars, int32_t max_chars);  // max -1: no limit
  ExprId any_number() { return out_.rule(number_); }
  // Nothing when no number lies in the range.
  std::optional<ExprId> integer(NumberRange range);
  std::optional<ExprId> number(const NumberRange& range);
  // `text` in quotes, escaped.
  ExprId string_literal(std::string_view text);
  // A string other than all of `names`, written without escapes.
  ExprId string_but(std::vector<std::string_view> names);
  // open item ("," item)* close, with min to max items.
  ExprId list(char open, ExprId item, int32_t min, int32_t max, char close);

  ExprId digits(int32_t min, int32_t max);
  // "," and space
  ExprId comma();

 private:
  ExprId escape();
  ExprId same_length(std::string_view low, std::string_view high);
  std::optional<ExprId> whole(int64_t low, int64_t high);
  std::optional<ExprId> positive(const NumberRange& range);
  ExprId not_after(size_t depth, const std::vector<std::string_view>& names);

  Expressions& out_;
  int32_t space_, string_char_, number_, value_, object_, array_;
};

// As JSON writes it, with quotes.
std::string quoted_json(std::string_view text);

}  // namespace baton::grammar
