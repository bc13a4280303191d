#include "common/tokenizer/pre_tokenizer.h"

#include <array>

#include "common/tokenizer/unicode/unicode_tables.h"
#include "common/tokenizer/utf8.h"

namespace baton::tokenizer {
namespace {

struct NamedPreTokenizer {
  std::string_view name;
  PreTokenizer value;
};
constexpr std::array<NamedPreTokenizer, 4> kNames = {{
    {"gpt-2", PreTokenizer::kGpt2},
    {"llama-bpe", PreTokenizer::kLlamaBpe},
    {"qwen2", PreTokenizer::kQwen2},
    {"smollm", PreTokenizer::kSmolLm},
}};

// The classes of the tables, told apart further as the patterns need it, and the end of the text.
enum class Class : uint8_t { kOther, kLetter, kNumber, kSpace, kNewline, kEnd };

struct Char {
  Class type;
  uint8_t length;  // bytes; 0 at the end
};

constexpr std::array<Class, 128> make_ascii_classes() {
  std::array<Class, 128> classes{};
  for (size_t c = 0; c < classes.size(); ++c) {
    if (c == '\n' || c == '\r') {
      classes[c] = Class::kNewline;
    } else if (c == ' ' || (c >= '\t' && c <= '\r')) {
      classes[c] = Class::kSpace;
    } else if (c >= '0' && c <= '9') {
      classes[c] = Class::kNumber;
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      classes[c] = Class::kLetter;
    } else {
      classes[c] = Class::kOther;
    }
  }
  return classes;
}
constexpr std::array<Class, 128> kAsciiClasses = make_ascii_classes();

constexpr bool is_space(Class type) { return type == Class::kSpace || type == Class::kNewline; }

// kNumbersEnd: every numeric character ends the text, as it does between the isolated digits of
// smollm.
template <bool kNumbersEnd>
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Char at(size_t position) const {
    if (position >= text_.size()) {
      return {Class::kEnd, 0};
    }
    const uint8_t byte = static_cast<uint8_t>(text_[position]);
    if (byte >= 0x80) {
      return wide_at(position);
    }
    const Class type = kAsciiClasses[byte];
    if (kNumbersEnd && type == Class::kNumber) {
      return {Class::kEnd, 0};
    }
    return {type, 1};
  }

  // 0 past the end; a byte of a longer sequence is no ASCII character and so is harmless.
  char byte_at(size_t position) const { return position < text_.size() ? text_[position] : '\0'; }

  // The end of the run of `type` that begins at `position`.
  size_t run_end(size_t position, Class type) const {
    for (Char c = at(position); c.type == type; c = at(position)) {
      position += c.length;
    }
    return position;
  }

  // \s+(?!\S)|\s+ at a space: all of the run at the end of the text, else all but its last
  // character, but at least one.
  size_t space_run_end(size_t position) const {
    size_t last = position;
    size_t end = position;
    Char c = at(end);
    while (is_space(c.type)) {
      last = end;
      end += c.length;
      c = at(end);
    }
    return c.type == Class::kEnd || last == position ? end : last;
  }

 private:
  Char wide_at(size_t position) const {
    const CodePoint c = decode_code_point(text_, position);
    Class type = Class::kOther;
    switch (char_class(c.value)) {
      case CharClass::kOther:
        type = kNumbersEnd && is_other_numeric(c.value) ? Class::kEnd : Class::kOther;
        break;
      case CharClass::kLetter:
        type = Class::kLetter;
        break;
      case CharClass::kNumber:
        type = kNumbersEnd ? Class::kEnd : Class::kNumber;
        break;
      case CharClass::kSpace:
        type = Class::kSpace;
        break;
    }
    return {type, static_cast<uint8_t>(type == Class::kEnd ? 0 : c.length)};
  }

  std::string_view text_;
};

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// Bytes after the apostrophe at `position` that make a contraction: s t m d re ve ll; else 0.
template <bool kIgnoreCase, bool kNumbersEnd>
size_t contraction_bytes(const Reader<kNumbersEnd>& reader, size_t position) {
  const auto next = [&](size_t i) {
    const char c = reader.byte_at(position + i);
    return kIgnoreCase ? lower(c) : c;
  };
  switch (next(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 1;
    case 'r':
    case 'v':
      return next(2) == 'e' ? 2 : 0;
    case 'l':
      return next(2) == 'l' ? 2 : 0;
    case '\xC5':  // U+017F, the long s, equals s when case is ignored
      return kIgnoreCase && next(2) == '\xBF' ? 2 : 0;
    default:
      return 0;
  }
}

template <bool kNumbersEnd>
size_t gpt2_end(std::string_view text, size_t begin) {
  const Reader<kNumbersEnd> reader(text);
  if (text[begin] == '\'') {
    if (const size_t bytes = contraction_bytes<false>(reader, begin)) {
      return begin + 1 + bytes;
    }
  }
  const Char first = reader.at(begin);
  if (text[begin] == ' ') {
    const Char second = reader.at(begin + 1);
    if (!is_space(second.type) && second.type != Class::kEnd) {
      return reader.run_end(begin + 1, second.type);
    }
  }
  if (is_space(first.type)) {
    return reader.space_run_end(begin);
  }
  return reader.run_end(begin, first.type);
}

size_t smollm_end(std::string_view text, size_t begin) {
  if (Reader<true>(text).at(begin).type == Class::kEnd) {
    return begin + decode_code_point(text, begin).length;
  }
  return gpt2_end<true>(text, begin);
}

// The end of \s*[\r\n]+ at a space: after the last newline of the run; `begin` if it has none.
size_t newline_run_end(const Reader<false>& reader, size_t begin) {
  size_t end = begin;
  size_t position = begin;
  for (Char c = reader.at(position); is_space(c.type); c = reader.at(position)) {
    position += c.length;
    if (c.type == Class::kNewline) {
      end = position;
    }
  }
  return end;
}

size_t llama_end(std::string_view text, size_t begin, int max_digits) {
  const Reader<false> reader(text);
  if (text[begin] == '\'') {
    if (const size_t bytes = contraction_bytes<true>(reader, begin)) {
      return begin + 1 + bytes;
    }
  }
  const Char first = reader.at(begin);
  const size_t next = begin + first.length;
  if (first.type == Class::kLetter) {
    return reader.run_end(next, Class::kLetter);
  }
  if (first.type == Class::kNumber) {
    size_t end = next;
    for (int digits = 1; digits < max_digits; ++digits) {
      const Char c = reader.at(end);
      if (c.type != Class::kNumber) {
        break;
      }
      end += c.length;
    }
    return end;
  }
  const Char second = reader.at(next);
  if (first.type != Class::kNewline && second.type == Class::kLetter) {
    return reader.run_end(next, Class::kLetter);
  }
  if (first.type == Class::kOther || (text[begin] == ' ' && second.type == Class::kOther)) {
    return reader.run_end(reader.run_end(next, Class::kOther), Class::kNewline);
  }
  const size_t newline_end = newline_run_end(reader, begin);
  return newline_end > begin ? newline_end : reader.space_run_end(begin);
}

}  // namespace

std::optional<PreTokenizer> pre_tokenizer_by_name(std::string_view name) {
  for (const auto& entry : kNames) {
    if (entry.name == name) {
      return entry.value;
    }
  }
  return std::nullopt;
}

std::string supported_pre_tokenizers() {
  std::string names;
  for (const auto& entry : kNames) {
    names += names.empty() ? "" : ", ";
    names += entry.name;
  }
  return names;
}

size_t next_piece_end(PreTokenizer pre_tokenizer, std::string_view text, size_t begin) {
  switch (pre_tokenizer) {
    case PreTokenizer::kGpt2:
      return gpt2_end<false>(text, begin);
    case PreTokenizer::kSmolLm:
      return smollm_end(text, begin);
    case PreTokenizer::kLlamaBpe:
      return llama_end(text, begin, 3);
    case PreTokenizer::kQwen2:
      return llama_end(text, begin, 1);
  }
  return text.size();
}

}  // namespace baton::tokenizer
