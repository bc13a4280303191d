#include "common/grammar/expressions.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace baton::grammar {
namespace {

constexpr char32_t kFirstSurrogate = 0xD800;
constexpr char32_t kLastSurrogate = 0xDFFF;

struct Utf8 {
  std::array<uint8_t, 4> bytes{};
  int length = 0;
};

Utf8 utf8_of(char32_t c) {
  const auto byte = [](char32_t value) { return static_cast<uint8_t>(value); };
  if (c < 0x80) {
    return {{byte(c)}, 1};
  }
  if (c < 0x800) {
    return {{byte(0xC0 | c >> 6), byte(0x80 | (c & 0x3F))}, 2};
  }
  if (c < 0x10000) {
    return {{byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))}, 3};
  }
  return {{byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 0x3F)), byte(0x80 | (c >> 6 & 0x3F)),
           byte(0x80 | (c & 0x3F))},
          4};
}

// The first code point after `c` at which the bytes of a sequence may no longer be treated as
// independent ranges: the sequence gets longer, or a continuation byte below the one that varies
// does not run over all of 80..BF.
char32_t split_after(char32_t low, char32_t high) {
  for (const char32_t limit : {char32_t{0x7F}, char32_t{0x7FF}, char32_t{0xFFFF}}) {
    if (low <= limit && high > limit) {
      return limit;
    }
  }
  for (int i = 1; i < utf8_of(high).length; ++i) {
    const char32_t mask = (char32_t{1} << (6 * i)) - 1;
    if ((low & ~mask) != (high & ~mask)) {
      if ((low & mask) != 0) {
        return low | mask;
      }
      if ((high & mask) != mask) {
        return (high & ~mask) - 1;
      }
    }
  }
  return high;
}

}  // namespace

std::vector<CodeRange> normalized(std::vector<CodeRange> ranges) {
  std::vector<CodeRange> cut;
  for (const CodeRange range : ranges) {
    if (range.low > range.high) {
      continue;
    }
    if (range.low < kFirstSurrogate) {
      cut.push_back({range.low, std::min(range.high, char32_t{kFirstSurrogate - 1})});
    }
    if (range.high > kLastSurrogate) {
      cut.push_back(
          {std::max(range.low, char32_t{kLastSurrogate + 1}), std::min(range.high, kMaxCodePoint)});
    }
  }
  std::sort(cut.begin(), cut.end(),
            [](const CodeRange& a, const CodeRange& b) { return a.low < b.low; });
  std::vector<CodeRange> out;
  for (const CodeRange range : cut) {
    if (!out.empty() && range.low <= out.back().high + 1) {
      out.back().high = std::max(out.back().high, range.high);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

std::vector<CodeRange> complement(std::vector<CodeRange> ranges) {
  std::vector<CodeRange> out;
  char32_t next = 0;
  for (const CodeRange range : normalized(std::move(ranges))) {
    if (range.low > next) {
      out.push_back({next, range.low - 1});
    }
    next = range.high + 1;
  }
  if (next <= kMaxCodePoint) {
    out.push_back({next, kMaxCodePoint});
  }
  return normalized(std::move(out));
}

Status Expressions::status() const {
  if (full_) {
    return resource_exhausted("the grammar is too large: more than " +
                              std::to_string(kMaxExpressions) + " parts");
  }
  return Status();
}

ExprId Expressions::add(Expression expression) {
  if (pool_.size() >= kMaxExpressions) {
    full_ = true;
    return empty();
  }
  pool_.push_back(std::move(expression));
  return static_cast<ExprId>(pool_.size() - 1);
}

ExprId Expressions::byte_range(uint8_t low, uint8_t high) {
  Expression expression;
  expression.kind = Expression::Kind::kBytes;
  expression.low = low;
  expression.high = high;
  return add(std::move(expression));
}

ExprId Expressions::literal(std::string_view bytes) {
  std::vector<ExprId> children;
  for (const char c : bytes) {
    children.push_back(byte_range(static_cast<uint8_t>(c), static_cast<uint8_t>(c)));
  }
  return concat(std::move(children));
}

ExprId Expressions::concat(std::vector<ExprId> children) {
  std::erase(children, empty());
  if (children.empty()) {
    return empty();
  }
  if (children.size() == 1) {
    return children[0];
  }
  Expression expression;
  expression.kind = Expression::Kind::kConcat;
  expression.children = std::move(children);
  return add(std::move(expression));
}

ExprId Expressions::alt(std::vector<ExprId> children) {
  if (children.size() == 1) {
    return children[0];
  }
  Expression expression;
  expression.kind = Expression::Kind::kAlt;
  expression.children = std::move(children);
  return add(std::move(expression));
}

// Sorted and different texts that are equal up to `depth`. Recurses as often as texts part.
ExprId Expressions::tree(std::span<const std::string> texts, size_t depth) {
  const std::string& first = texts.front();
  const std::string& last = texts.back();
  const auto parting = std::mismatch(first.begin(), first.end(), last.begin(), last.end()).first;
  const auto end = static_cast<size_t>(parting - first.begin());
  const ExprId beginning = literal(std::string_view(first).substr(depth, end - depth));
  std::vector<ExprId> choices;
  if (first.size() == end) {
    choices.push_back(empty());
    texts = texts.subspan(1);
  }
  while (!texts.empty() && !full_) {
    const char next = texts.front()[end];
    const auto other = std::find_if(texts.begin(), texts.end(),
                                    [&](const std::string& text) { return text[end] != next; });
    const auto count = static_cast<size_t>(other - texts.begin());
    choices.push_back(tree(texts.first(count), end));
    texts = texts.subspan(count);
  }
  return concat({beginning, alt(std::move(choices))});
}

ExprId Expressions::any_of(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return texts.empty() ? alt({}) : tree(texts, 0);
}

ExprId Expressions::repeat(ExprId child, int32_t min, int32_t max) {
  if (max == 0 || child == empty()) {
    return empty();
  }
  if (min == 1 && max == 1) {
    return child;
  }
  Expression expression;
  expression.kind = Expression::Kind::kRepeat;
  expression.min = min;
  expression.max = max;
  expression.children = {child};
  return add(std::move(expression));
}

int32_t Expressions::new_rule() {
  rules_.push_back(-1);
  return static_cast<int32_t>(rules_.size() - 1);
}

ExprId Expressions::rule(int32_t rule) {
  Expression expression;
  expression.kind = Expression::Kind::kRule;
  expression.rule = rule;
  return add(std::move(expression));
}

// Source of the splitting: Russ Cox, "Regular Expression Matching in the Wild" (2010),
// https://swtch.com/~rsc/regexp/regexp3.html, section on UTF-8.
void Expressions::add_utf8(CodeRange range, std::vector<ExprId>& out) {
  char32_t low = range.low;
  while (low <= range.high) {
    char32_t high = range.high;
    for (char32_t end = split_after(low, high); end != high; end = split_after(low, high)) {
      high = end;
    }
    const Utf8 first = utf8_of(low);
    const Utf8 last = utf8_of(high);
    std::vector<ExprId> bytes;
    for (size_t i = 0; i < static_cast<size_t>(first.length); ++i) {
      bytes.push_back(byte_range(first.bytes[i], last.bytes[i]));
    }
    out.push_back(concat(std::move(bytes)));
    low = high + 1;
  }
}

void Expressions::add_json_escapes(char32_t low, char32_t high, std::vector<ExprId>& out) {
  static constexpr std::string_view kShort = "\"\\\b\f\n\r\t";
  static constexpr std::string_view kLetters = "\"\\bfnrt";
  for (char32_t c = low; c <= high; ++c) {
    const size_t at = kShort.find(static_cast<char>(c));
    if (at != std::string_view::npos) {
      out.push_back(literal(std::string("\\") + kLetters[at]));
    } else {
      char text[8];
      std::snprintf(text, sizeof(text), "\\u%04x", static_cast<unsigned>(c));
      out.push_back(literal(text));
    }
  }
}

// Adds the escapes of `ranges` to `out` and returns what is written as it is.
std::vector<CodeRange> Expressions::add_escaped(const std::vector<CodeRange>& ranges,
                                                std::vector<ExprId>& out) {
  static const std::vector<CodeRange> kEscaped = {{0, 0x1F}, {U'"', U'"'}, {U'\\', U'\\'}};
  std::vector<CodeRange> plain = complement(ranges);
  plain.insert(plain.end(), kEscaped.begin(), kEscaped.end());
  for (const CodeRange range : ranges) {
    for (const CodeRange escaped : kEscaped) {
      add_json_escapes(std::max(range.low, escaped.low), std::min(range.high, escaped.high), out);
    }
  }
  return complement(std::move(plain));
}

ExprId Expressions::code_point(std::span<const CodeRange> ranges, TextForm form) {
  std::vector<ExprId> out;
  std::vector<CodeRange> sorted = normalized({ranges.begin(), ranges.end()});
  if (form == TextForm::kJsonString) {
    sorted = add_escaped(sorted, out);
  }
  for (const CodeRange range : sorted) {
    add_utf8(range, out);
  }
  return alt(std::move(out));
}

}  // namespace baton::grammar
