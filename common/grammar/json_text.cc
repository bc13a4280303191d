#include "common/grammar/json_text.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

namespace baton::grammar {
namespace {

constexpr int kMaxDigits = 16;
constexpr int kMaxFraction = 16;

}  // namespace

std::string quoted_json(std::string_view text) {
  static constexpr std::string_view kShort = "\"\\\b\f\n\r\t";
  static constexpr std::string_view kLetters = "\"\\bfnrt";
  std::string out = "\"";
  for (const char c : text) {
    const size_t at = kShort.find(c);
    if (at != std::string_view::npos) {
      out += '\\';
      out += kLetters[at];
    } else if (static_cast<uint8_t>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

JsonText::JsonText(Expressions& out)
    : out_(out),
      space_(out.new_rule()),
      string_char_(out.new_rule()),
      number_(out.new_rule()),
      value_(out.new_rule()),
      object_(out.new_rule()),
      array_(out.new_rule()) {
  const CodeRange indent[] = {{U' ', U' '}, {U'\t', U'\t'}};
  out.define(space_, out.alt({out.empty(), out.literal(" "),
                              out.concat({out.repeat(out.literal("\n"), 1, 2),
                                          out.repeat(out.code_point(indent), 0, 20)})}));
  const CodeRange plain[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, kMaxCodePoint}};
  out.define(string_char_, out.alt({out.code_point(plain), escape()}));
  const CodeRange exponent_mark[] = {{U'E', U'E'}, {U'e', U'e'}};
  const CodeRange sign[] = {{U'+', U'+'}, {U'-', U'-'}};
  const ExprId whole_part = out.alt(
      {out.literal("0"), out.concat({out.byte_range('1', '9'), digits(0, kMaxDigits - 1)})});
  const ExprId fraction = out.concat({out.literal("."), digits(1, kMaxFraction)});
  const ExprId exponent =
      out.concat({out.code_point(exponent_mark), out.optional(out.code_point(sign)), digits(1, 2)});
  out.define(number_, out.concat({out.optional(out.literal("-")), whole_part,
                                  out.optional(fraction), out.optional(exponent)}));
  const ExprId member = out.concat({string(0, -1), out.literal(":"), space(), any_value()});
  out.define(object_, list('{', member, 0, -1, '}'));
  out.define(array_, list('[', any_value(), 0, -1, ']'));
  out.define(value_, out.alt({any_object(), any_array(), string(0, -1), any_number(),
                              out.literal("true"), out.literal("false"), out.literal("null")}));
}

// Surrogates are left out: half of a pair would be no character.
ExprId JsonText::escape() {
  const CodeRange marks[] = {{U'"', U'"'}, {U'/', U'/'}, {U'\\', U'\\'}, {U'b', U'b'},
                             {U'f', U'f'}, {U'n', U'n'}, {U'r', U'r'},   {U't', U't'}};
  const CodeRange hex[] = {{U'0', U'9'}, {U'A', U'F'}, {U'a', U'f'}};
  const CodeRange not_d[] = {{U'0', U'9'}, {U'A', U'C'}, {U'E', U'F'}, {U'a', U'c'}, {U'e', U'f'}};
  const CodeRange d[] = {{U'D', U'D'}, {U'd', U'd'}};
  const ExprId any = out_.code_point(hex);
  const ExprId first_two = out_.alt({out_.concat({out_.code_point(not_d), any}),
                                     out_.concat({out_.code_point(d), out_.byte_range('0', '7')})});
  return out_.concat(
      {out_.literal("\\"),
       out_.alt({out_.code_point(marks), out_.concat({out_.literal("u"), first_two, any, any})})});
}

ExprId JsonText::digits(int32_t min, int32_t max) {
  return out_.repeat(out_.byte_range('0', '9'), min, max);
}

ExprId JsonText::comma() { return out_.concat({out_.literal(","), space()}); }

ExprId JsonText::string(int32_t min_chars, int32_t max_chars) {
  return out_.concat(
      {out_.literal("\""), out_.repeat(string_char(), min_chars, max_chars), out_.literal("\"")});
}

ExprId JsonText::string_literal(std::string_view text) { return out_.literal(quoted_json(text)); }

ExprId JsonText::list(char open, ExprId item, int32_t min, int32_t max, char close) {
  const ExprId begin = out_.concat({out_.literal(std::string(1, open)), space()});
  const ExprId end = out_.literal(std::string(1, close));
  if (max == 0) {
    return out_.concat({begin, end});
  }
  const ExprId more =
      out_.repeat(out_.concat({comma(), item}), std::max(0, min - 1), max < 0 ? -1 : max - 1);
  const ExprId items = out_.concat({item, more, space()});
  return out_.concat({begin, min == 0 ? out_.optional(items) : items, end});
}

// The names that begin with the same `depth` bytes: what a string may go on with to be none.
ExprId JsonText::not_after(size_t depth, const std::vector<std::string_view>& names) {
  bool is_name = false;
  std::vector<ExprId> choices;
  std::vector<bool> taken(256);
  for (size_t i = 0; i < names.size();) {
    if (names[i].size() == depth) {
      is_name = true;
      ++i;
      continue;
    }
    const char next = names[i][depth];
    std::vector<std::string_view> same;
    for (; i < names.size() && names[i][depth] == next; ++i) {
      same.push_back(names[i]);
    }
    taken[static_cast<uint8_t>(next)] = true;
    choices.push_back(
        out_.concat({out_.literal(std::string(1, next)), not_after(depth + 1, same)}));
  }
  // A character that no name goes on with, then anything. Only ASCII names get here, so a byte is
  // a character.
  std::vector<CodeRange> free = {{0x80, kMaxCodePoint}};
  for (char32_t c = 0x20; c < 0x80; ++c) {
    if (!taken[c] && c != U'"' && c != U'\\') {
      free.push_back({c, c});
    }
  }
  const CodeRange plain[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, kMaxCodePoint}};
  choices.push_back(
      out_.concat({out_.code_point(free), out_.repeat(out_.code_point(plain), 0, -1)}));
  if (!is_name) {
    choices.push_back(out_.empty());
  }
  return out_.alt(std::move(choices));
}

ExprId JsonText::string_but(std::vector<std::string_view> names) {
  std::sort(names.begin(), names.end());
  return out_.concat({out_.literal("\""), not_after(0, names), out_.literal("\"")});
}

// Decimal numbers of as many digits as both have, from low to high.
ExprId JsonText::same_length(std::string_view low, std::string_view high) {
  if (low.empty()) {
    return out_.empty();
  }
  const auto digit = [this](char from, char to) {
    return out_.byte_range(static_cast<uint8_t>(from), static_cast<uint8_t>(to));
  };
  const std::string zeros(low.size() - 1, '0');
  const std::string nines(low.size() - 1, '9');
  const auto rest = static_cast<int32_t>(low.size() - 1);
  if (low.substr(1) == zeros && high.substr(1) == nines) {
    return out_.concat({digit(low[0], high[0]), digits(rest, rest)});
  }
  if (low[0] == high[0]) {
    return out_.concat({digit(low[0], low[0]), same_length(low.substr(1), high.substr(1))});
  }
  std::vector<ExprId> choices = {
      out_.concat({digit(low[0], low[0]), same_length(low.substr(1), nines)}),
      out_.concat({digit(high[0], high[0]), same_length(zeros, high.substr(1))})};
  if (low[0] + 1 <= high[0] - 1) {
    choices.push_back(
        out_.concat({digit(static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1)),
                     digits(rest, rest)}));
  }
  return out_.alt(std::move(choices));
}

// 0 <= low.
std::optional<ExprId> JsonText::whole(int64_t low, int64_t high) {
  if (low > high) {
    return std::nullopt;
  }
  std::vector<ExprId> choices;
  int64_t first = 0;  // of the numbers with as many digits
  int64_t last = 9;
  for (int length = 1; length <= kMaxDigits; ++length) {
    const int64_t from = std::max(low, first);
    const int64_t to = std::min(high, last);
    if (from <= to) {
      choices.push_back(same_length(std::to_string(from), std::to_string(to)));
    }
    first = last + 1;
    last = last * 10 + 9;
  }
  return out_.alt(std::move(choices));
}

std::optional<ExprId> JsonText::integer(NumberRange range) {
  const int64_t low = range.low.value_or(-kMaxBound) + (range.low_exclusive ? 1 : 0);
  const int64_t high = range.high.value_or(kMaxBound) - (range.high_exclusive ? 1 : 0);
  std::vector<ExprId> choices;
  if (const auto positive = whole(std::max<int64_t>(0, low), high)) {
    choices.push_back(*positive);
  }
  if (const auto negative = whole(std::max<int64_t>(1, -high), -low)) {
    choices.push_back(out_.concat({out_.literal("-"), *negative}));
  }
  return choices.empty() ? std::nullopt : std::optional(out_.alt(std::move(choices)));
}

// Both bounds are set and not negative.
std::optional<ExprId> JsonText::positive(const NumberRange& range) {
  const int64_t low = *range.low;
  const int64_t high = *range.high;
  std::vector<ExprId> choices;
  const ExprId fraction = out_.optional(out_.concat({out_.literal("."), digits(1, kMaxFraction)}));
  if (low < high) {
    const ExprId nonzero =
        out_.concat({out_.literal("."), digits(0, kMaxFraction - 1), out_.byte_range('1', '9')});
    choices.push_back(
        out_.concat({out_.literal(std::to_string(low)), range.low_exclusive ? nonzero : fraction}));
    if (const auto between = whole(low + 1, high - 1)) {
      choices.push_back(out_.concat({*between, fraction}));
    }
    if (!range.high_exclusive) {
      choices.push_back(out_.literal(std::to_string(high)));
    }
  } else if (low == high && !range.low_exclusive && !range.high_exclusive) {
    choices.push_back(out_.literal(std::to_string(low)));
  }
  return choices.empty() ? std::nullopt : std::optional(out_.alt(std::move(choices)));
}

std::optional<ExprId> JsonText::number(const NumberRange& range) {
  if (!range.low && !range.high) {
    return any_number();
  }
  const int64_t low = range.low.value_or(-kMaxBound);
  const int64_t high = range.high.value_or(kMaxBound);
  std::vector<ExprId> choices;
  if (high >= 0) {
    const bool from_zero = low < 0;
    const NumberRange above = {from_zero ? 0 : low, high, !from_zero && range.low_exclusive,
                               range.high_exclusive};
    if (const auto part = positive(above)) {
      choices.push_back(*part);
    }
  }
  if (low < 0) {
    // Mirrored; zero itself is written without a sign.
    const bool to_zero = high >= 0;
    const NumberRange below = {to_zero ? 0 : -high, -low, to_zero || range.high_exclusive,
                               range.low_exclusive};
    if (const auto part = positive(below)) {
      choices.push_back(out_.concat({out_.literal("-"), *part}));
    }
  }
  return choices.empty() ? std::nullopt : std::optional(out_.alt(std::move(choices)));
}

}  // namespace baton::grammar
