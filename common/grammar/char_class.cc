#include "common/grammar/char_class.h"

#include <string>

namespace baton::grammar {
namespace {

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

Result<char32_t> read_hex_escape(TextReader& reader, char kind) {
  int32_t value = -1;
  if (kind == 'u' && reader.take('{')) {
    for (int digits = 6; digits >= 1 && value < 0; --digits) {
      const size_t begin = reader.position();
      value = reader.take_hex(digits);
      if (value >= 0 && !reader.take('}')) {
        value = -1;
        reader.seek(begin);
      }
    }
  } else {
    value = reader.take_hex(kind == 'x' ? 2 : kind == 'u' ? 4 : 8);
  }
  if (value < 0) {
    return reader.error(std::string("\\") + kind + " without its hexadecimal digits");
  }
  const auto point = static_cast<char32_t>(value);
  if (point > kMaxCodePoint || (point >= 0xD800 && point <= 0xDFFF)) {
    return reader.error("an escape that is no Unicode character");
  }
  return point;
}

// One end of a range inside [...]; a class such as \d goes to `ranges` and gives nothing.
Result<std::optional<char32_t>> read_class_part(TextReader& reader,
                                                std::vector<CodeRange>& ranges) {
  if (!reader.take('\\')) {
    return std::optional(reader.take_code_point());
  }
  if (const auto named = class_of(reader.peek())) {
    reader.take_code_point();
    ranges.insert(ranges.end(), named->begin(), named->end());
    return std::optional<char32_t>();
  }
  if (reader.take('b')) {
    return std::optional(U'\b');
  }
  BATON_ASSIGN_OR_RETURN(const char32_t point, read_escape(reader));
  return std::optional(point);
}

}  // namespace

std::optional<std::vector<CodeRange>> class_of(char letter) {
  static const std::vector<CodeRange> kDigits = {{U'0', U'9'}};
  static const std::vector<CodeRange> kWord = {
      {U'0', U'9'}, {U'A', U'Z'}, {U'_', U'_'}, {U'a', U'z'}};
  static const std::vector<CodeRange> kSpace = {{U'\t', U'\r'}, {U' ', U' '}};
  switch (letter) {
    case 'd':
      return kDigits;
    case 'D':
      return complement(kDigits);
    case 'w':
      return kWord;
    case 'W':
      return complement(kWord);
    case 's':
      return kSpace;
    case 'S':
      return complement(kSpace);
    default:
      return std::nullopt;
  }
}

Result<char32_t> read_escape(TextReader& reader) {
  if (reader.at_end()) {
    return reader.error("a backslash at the end");
  }
  const char c = reader.peek();
  static constexpr std::string_view kLetters = "nrtfv0a";
  static constexpr std::string_view kValues{"\n\r\t\f\v\0\a", 7};
  const size_t at = kLetters.find(c);
  if (at != std::string_view::npos) {
    reader.take_code_point();
    return static_cast<char32_t>(kValues[at]);
  }
  if (c == 'x' || c == 'u' || c == 'U') {
    reader.take_code_point();
    return read_hex_escape(reader, c);
  }
  if (is_letter_or_digit(c)) {
    return reader.refuse(std::string("\\") + c);
  }
  return reader.take_code_point();
}

Result<std::vector<CodeRange>> read_class(TextReader& reader) {
  const bool negated = reader.take('^');
  std::vector<CodeRange> ranges;
  for (bool first = true; first || reader.peek() != ']'; first = false) {
    if (reader.at_end()) {
      return reader.error("[ without ]");
    }
    if (reader.starts_with("[:")) {
      return reader.refuse("a POSIX class [:...:]");
    }
    BATON_ASSIGN_OR_RETURN(const std::optional<char32_t> low, read_class_part(reader, ranges));
    if (!low) {
      continue;
    }
    if (reader.peek() != '-' || reader.peek(1) == ']' || reader.peek(1) == '\0') {
      ranges.push_back({*low, *low});
      continue;
    }
    reader.take('-');
    BATON_ASSIGN_OR_RETURN(const std::optional<char32_t> high, read_class_part(reader, ranges));
    if (!high || *high < *low) {
      return reader.error("a range that ends before it begins");
    }
    ranges.push_back({*low, *high});
  }
  reader.take(']');
  return negated ? complement(std::move(ranges)) : normalized(std::move(ranges));
}

}  // namespace baton::grammar
