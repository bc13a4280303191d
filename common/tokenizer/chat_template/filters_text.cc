// Filters whose result is text or a number.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "common/tokenizer/chat_template/filters.h"
#include "common/tokenizer/chat_template/json_text.h"
#include "common/tokenizer/chat_template/string_methods.h"
#include "common/tokenizer/chat_template/text.h"
#include "common/tokenizer/chat_template/value_ops.h"

namespace baton::chat_template {
namespace {

// More columns than any template means; keeps indents from being used to fill memory.
constexpr int64_t kMaxIndent = 1000;

template <std::string (*Map)(std::string_view)>
Result<Value> mapped(const Value& input, const Arguments& arguments, Runtime& runtime) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments none,
                         BoundArguments::bind("filter", arguments, {}, 0));
  BATON_ASSIGN_OR_RETURN(const std::string text, to_text(input, runtime.budget()));
  BATON_RETURN_IF_ERROR(runtime.budget().spend(8 * text.size()));
  return Value::string(Map(text));
}

std::string identity(std::string_view text) { return std::string(text); }

// jinja2 splits at these, not at every character without case as str.title does.
std::string title_of(std::string_view text) {
  std::string out;
  std::string word;
  const auto flush = [&] {
    size_t at = 0;
    if (!word.empty()) {
      next_code_point(word, at);
      out += to_upper(std::string_view(word).substr(0, at));
      out += to_lower(std::string_view(word).substr(at));
      word.clear();
    }
  };
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    const uint32_t c = next_code_point(text, at);
    const bool breaks = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (breaks) {
      flush();
      out += text.substr(start, at - start);
    } else {
      word += text.substr(start, at - start);
    }
  }
  flush();
  return out;
}

Result<Value> trim(const Value& input, const Arguments& arguments, Runtime& runtime) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("trim", arguments, {"chars"}, 0));
  BATON_ASSIGN_OR_RETURN(const auto chars, bound.optional_text(0));
  BATON_ASSIGN_OR_RETURN(const std::string text, to_text(input, runtime.budget()));
  BATON_RETURN_IF_ERROR(
      runtime.budget().spend(text.size() * (1 + (chars ? chars->size() / 8 : 0))));
  return Value::string(std::string(strip(text, Side::kBoth, chars)));
}

Result<Value> replace_filter(const Value& input, const Arguments& arguments, Runtime& runtime) {
  Budget& budget = runtime.budget();
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("replace", arguments, {"old", "new", "count"}, 2));
  BATON_ASSIGN_OR_RETURN(const std::string text, to_text(input, budget));
  BATON_ASSIGN_OR_RETURN(const std::string from, to_text(*bound.get(0), budget));
  BATON_ASSIGN_OR_RETURN(const std::string to, to_text(*bound.get(1), budget));
  int64_t count = -1;
  if (bound.has(2) && !bound.get(2)->is(Kind::kNone)) {
    BATON_ASSIGN_OR_RETURN(count, bound.integer(2, -1));
  }
  BATON_RETURN_IF_ERROR(spend_replace(text, from, to, budget));
  return Value::string(replace(text, from, to, count));
}

Result<std::string> indent_text(const BoundArguments& bound, size_t slot, int64_t otherwise) {
  if (bound.has(slot) && bound.get(slot)->is_string()) {
    if (bound.get(slot)->as_string().size() > static_cast<size_t>(kMaxIndent)) {
      return type_error("an indent of more than 1000 bytes");
    }
    return bound.get(slot)->as_string();
  }
  BATON_ASSIGN_OR_RETURN(const int64_t width, bound.integer(slot, otherwise));
  if (width > kMaxIndent) {
    return type_error("an indent of more than 1000 columns");
  }
  return std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
}

Result<Value> indent(const Value& input, const Arguments& arguments, Runtime& runtime) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("indent", arguments, {"width", "first", "blank"}, 0));
  if (!input.is_string()) {
    return input.is_undefined()
               ? undefined_error(input)
               : type_error("indent needs a str, not " + std::string(type_name(input)));
  }
  BATON_ASSIGN_OR_RETURN(const std::string indention, indent_text(bound, 0, 4));
  const std::string text = input.as_string() + "\n";
  BATON_RETURN_IF_ERROR(runtime.budget().spend(17 * text.size()));
  const std::vector<std::string_view> lines = split_lines(text, false);
  BATON_RETURN_IF_ERROR(runtime.budget().spend(lines.size() * indention.size()));
  std::string out = bound.truth(1, false) ? indention : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out += '\n';
      out += lines[i].empty() && !bound.truth(2, false) ? "" : indention;
    }
    out += lines[i];
  }
  return Value::string(std::move(out));
}

Result<Value> center(const Value& input, const Arguments& arguments, Runtime& runtime) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("center", arguments, {"width"}, 0));
  BATON_ASSIGN_OR_RETURN(const int64_t width, bound.integer(0, 80));
  BATON_ASSIGN_OR_RETURN(const std::string text, to_text(input, runtime.budget()));
  const auto size = static_cast<int64_t>(count_code_points(text));
  if (width <= size) {
    return Value::string(text);
  }
  if (width > kMaxIndent) {
    return type_error("a width of more than 1000 columns");
  }
  const int64_t pad = width - size;
  const int64_t left = pad / 2 + (pad & width & 1);
  return Value::string(std::string(static_cast<size_t>(left), ' ') + text +
                       std::string(static_cast<size_t>(pad - left), ' '));
}

Result<Value> to_json(const Value& input, const Arguments& arguments, Runtime& runtime) {
  BATON_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::bind("tojson", arguments,
                           {"ensure_ascii", "indent", "separators", "sort_keys"}, 0));
  JsonStyle style;
  style.ensure_ascii = bound.truth(0, false);
  style.sort_keys = bound.truth(3, false);
  if (bound.has(1) && !bound.get(1)->is(Kind::kNone)) {
    BATON_ASSIGN_OR_RETURN(style.indent, indent_text(bound, 1, 0));
    style.item_separator = ",";
  }
  if (bound.has(2) && !bound.get(2)->is(Kind::kNone)) {
    const Value& pair = *bound.get(2);
    if (!pair.is_sequence() || pair.items().size() != 2 || !pair.items()[0].is_string() ||
        !pair.items()[1].is_string()) {
      return type_error("tojson() separators must be two strings");
    }
    style.item_separator = pair.items()[0].as_string();
    style.key_separator = pair.items()[1].as_string();
  }
  BATON_ASSIGN_OR_RETURN(std::string text, to_json_text(input, style, runtime.budget()));
  return Value::string(std::move(text));
}

Result<Value> default_value(const Value& input, const Arguments& arguments, Runtime&) {
  BATON_ASSIGN_OR_RETURN(
      const BoundArguments bound,
      BoundArguments::bind("default", arguments, {"default_value", "boolean"}, 0));
  const bool replaced = input.is_undefined() || (bound.truth(1, false) && !is_true(input));
  if (!replaced) {
    return input;
  }
  return bound.has(0) ? *bound.get(0) : Value::string("");
}

Result<Value> length(const Value& input, const Arguments& arguments, Runtime& runtime) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments none,
                         BoundArguments::bind("length", arguments, {}, 0));
  BATON_ASSIGN_OR_RETURN(const int64_t size, length_of(input, runtime.budget()));
  return Value::integer(size);
}

// float(text) for the forms that from_chars knows.
std::optional<double> parse_real(std::string_view text) {
  text = strip(text, Side::kBoth, std::nullopt);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
  }
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && !text.empty()
             ? std::optional<double>(value)
             : std::nullopt;
}

std::optional<int64_t> truncate_real(double value) {
  return std::fabs(value) < 0x1p63 ? std::optional<int64_t>(static_cast<int64_t>(value))
                                   : std::nullopt;
}

std::optional<int64_t> parse_integer(const std::string& raw, int base) {
  std::string_view text = strip(raw, Side::kBoth, std::nullopt);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
  }
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && !text.empty()
             ? std::optional<int64_t>(value)
             : std::nullopt;
}

Result<Value> to_integer(const Value& input, const Arguments& arguments, Runtime&) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("int", arguments, {"default", "base"}, 0));
  BATON_ASSIGN_OR_RETURN(const int64_t base, bound.integer(1, 10));
  if (base < 2 || base > 36) {
    return type_error("int() base must be >= 2 and <= 36");
  }
  if (input.is_undefined()) {
    return undefined_error(input);
  }
  std::optional<int64_t> value;
  if (input.is_integral()) {
    value = input.as_int();
  } else if (input.is(Kind::kFloat)) {
    value = truncate_real(input.as_real());
  } else if (input.is_string()) {
    value = parse_integer(input.as_string(), static_cast<int>(base));
    if (!value) {
      const std::optional<double> real = parse_real(input.as_string());
      value = real ? truncate_real(*real) : std::nullopt;
    }
  }
  if (value) {
    return Value::integer(*value);
  }
  return bound.has(0) ? *bound.get(0) : Value::integer(0);
}

Result<Value> to_real(const Value& input, const Arguments& arguments, Runtime&) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("float", arguments, {"default"}, 0));
  if (input.is_undefined()) {
    return undefined_error(input);
  }
  if (input.is_number()) {
    return Value::real(input.as_real());
  }
  if (input.is_string()) {
    if (const std::optional<double> value = parse_real(input.as_string())) {
      return Value::real(*value);
    }
  }
  return bound.has(0) ? *bound.get(0) : Value::real(0);
}

Result<Value> absolute(const Value& input, const Arguments& arguments, Runtime&) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments none, BoundArguments::bind("abs", arguments, {}, 0));
  if (input.is(Kind::kFloat)) {
    return Value::real(std::fabs(input.as_real()));
  }
  if (!input.is_integral()) {
    return type_error("bad operand type for abs(): '" + std::string(type_name(input)) + "'");
  }
  return input.as_int() < 0 ? negate(input) : Value::integer(input.as_int());
}

// Decimal rounding of the exact binary value, ties to even: what Python's round does.
double round_decimal(double value, int precision) {
  std::array<char, 512> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::fixed, precision);
  double rounded = value;
  if (end.ec == std::errc()) {
    std::from_chars(buffer.data(), end.ptr, rounded);
  }
  return rounded;
}

Result<Value> round_number(const Value& input, const Arguments& arguments, Runtime&) {
  BATON_ASSIGN_OR_RETURN(const BoundArguments bound,
                         BoundArguments::bind("round", arguments, {"precision", "method"}, 0));
  BATON_ASSIGN_OR_RETURN(const int64_t precision, bound.integer(0, 0));
  BATON_ASSIGN_OR_RETURN(const std::string method, bound.text(1, "common"));
  if (method != "common" && method != "ceil" && method != "floor") {
    return type_error("method must be common, ceil or floor");
  }
  if (!input.is_number() || precision < 0 || precision > 15) {
    return unsupported("chat template: round of a " + std::string(type_name(input)) +
                       " to this precision is not supported");
  }
  if (method == "common") {
    return input.is_integral()
               ? Value::integer(input.as_int())
               : Value::real(round_decimal(input.as_real(), static_cast<int>(precision)));
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = input.as_real() * scale;
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

struct Entry {
  std::string_view name;
  FilterFunction function;
};

constexpr std::array<Entry, 22> kFilters = {{
    {"abs", absolute},
    {"capitalize", mapped<capitalize>},
    {"center", center},
    {"count", length},
    {"d", default_value},
    {"default", default_value},
    {"e", mapped<escape_html>},
    {"escape", mapped<escape_html>},
    {"float", to_real},
    {"forceescape", mapped<escape_html>},
    {"indent", indent},
    {"int", to_integer},
    {"length", length},
    {"lower", mapped<to_lower>},
    {"replace", replace_filter},
    {"round", round_number},
    {"safe", mapped<identity>},
    {"string", mapped<identity>},
    {"title", mapped<title_of>},
    {"tojson", to_json},
    {"trim", trim},
    {"upper", mapped<to_upper>},
}};

}  // namespace

FilterFunction find_text_filter(std::string_view name) {
  const auto it = std::find_if(kFilters.begin(), kFilters.end(),
                               [&](const Entry& entry) { return entry.name == name; });
  return it == kFilters.end() ? nullptr : it->function;
}

}  // namespace baton::chat_template
