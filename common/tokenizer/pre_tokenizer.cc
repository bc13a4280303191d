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
constexpr std::array<NamedPreTokenizer, 8> kNames = {{
    {"deepseek-v3", PreTokenizer::kDeepSeekV3},
    {"gpt-2", PreTokenizer::kGpt2},
    {"gpt-4o", PreTokenizer::kGpt4o},
    {"llama-bpe", PreTokenizer::kLlamaBpe},
    {"llama4", PreTokenizer::kGpt4o},
    {"qwen2", PreTokenizer::kQwen2},
    {"smollm", PreTokenizer::kSmolLm},
    {"tekken", PreTokenizer::kTekken},
}};

// Classes of characters as sets: those of the tables, told apart further as the patterns need it,
// and the end of the text.
using Set = uint16_t;
constexpr Set kUpper = 1;
constexpr Set kLower = 2;
constexpr Set kCaseless = 4;
constexpr Set kMark = 8;
constexpr Set kNumber = 16;
constexpr Set kSpace = 32;
constexpr Set kNewline = 64;
constexpr Set kPunctuation = 128;
constexpr Set kOther = 256;
constexpr Set kEnd = 512;

constexpr Set kLetter = kUpper | kLower | kCaseless;
constexpr Set kAnySpace = kSpace | kNewline;
constexpr Set kNotWord = kMark | kPunctuation | kOther;  // [^\s\p{L}\p{N}]
constexpr Set kUpperLike = kUpper | kCaseless | kMark;   // U of gpt-4o
constexpr Set kLowerLike = kLower | kCaseless | kMark;   // L of gpt-4o

struct Char {
  Set type;        // one class
  uint8_t length;  // bytes; 0 at the end

  bool is(Set set) const { return (type & set) != 0; }
};

constexpr std::array<Set, 128> make_ascii_classes() {
  std::array<Set, 128> classes{};
  for (size_t c = 0; c < classes.size(); ++c) {
    if (c == '\n' || c == '\r') {
      classes[c] = kNewline;
    } else if (c == ' ' || (c >= '\t' && c <= '\r')) {
      classes[c] = kSpace;
    } else if (c >= '0' && c <= '9') {
      classes[c] = kNumber;
    } else if (c >= 'a' && c <= 'z') {
      classes[c] = kLower;
    } else if (c >= 'A' && c <= 'Z') {
      classes[c] = kUpper;
    } else {
      classes[c] = c < 0x20 || c == 0x7F ? kOther : kPunctuation;
    }
  }
  return classes;
}
constexpr std::array<Set, 128> kAsciiClasses = make_ascii_classes();

constexpr bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// [一-龥぀-ゟ゠-ヿ], which deepseek-v3 splits off.
constexpr bool is_east_asian(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
}

// Where a text is cut before the pattern is matched: a lookahead sees the end of the text there.
enum class Cuts : uint8_t {
  kNone,
  kNumeric,           // at every numeric character
  kNumberOrEastAsian  // at \p{N} and is_east_asian
};

template <Cuts kCuts>
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Char at(size_t position) const {
    if (position >= text_.size()) {
      return {kEnd, 0};
    }
    const uint8_t byte = static_cast<uint8_t>(text_[position]);
    if (byte >= 0x80) {
      return wide_at(position);
    }
    const Set type = kAsciiClasses[byte];
    if (kCuts != Cuts::kNone && type == kNumber) {
      return {kEnd, 0};
    }
    return {type, 1};
  }

  // 0 past the end; a byte of a longer sequence is no ASCII character and so is harmless.
  char byte_at(size_t position) const { return position < text_.size() ? text_[position] : '\0'; }

  // The end of the run of `set` that begins at `position`.
  size_t run_end(size_t position, Set set) const {
    for (Char c = at(position); c.is(set); c = at(position)) {
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
    while (c.is(kAnySpace)) {
      last = end;
      end += c.length;
      c = at(end);
    }
    return c.is(kEnd) || last == position ? end : last;
  }

  // \s*[\r\n]+|\s+(?!\S)|\s+ at a space: up to the last newline of the run, if it has one.
  size_t newline_or_space_end(size_t begin) const {
    size_t end = begin;
    size_t position = begin;
    for (Char c = at(position); c.is(kAnySpace); c = at(position)) {
      position += c.length;
      end = c.is(kNewline) ? position : end;
    }
    return end > begin ? end : space_run_end(begin);
  }

 private:
  Char wide_at(size_t position) const {
    static constexpr std::array<Set, 8> kSets = {kOther, kUpper,  kLower, kCaseless,
                                                 kMark,  kNumber, kSpace, kPunctuation};
    const CodePoint c = decode_code_point(text_, position);
    const Set type = kSets[static_cast<size_t>(char_class(c.value))];
    if constexpr (kCuts == Cuts::kNumeric) {
      if (type == kNumber || (type == kOther && is_other_numeric(c.value))) {
        return {kEnd, 0};
      }
    }
    if constexpr (kCuts == Cuts::kNumberOrEastAsian) {
      if (type == kNumber || is_east_asian(c.value)) {
        return {kEnd, 0};
      }
    }
    return {type, static_cast<uint8_t>(c.length)};
  }

  std::string_view text_;
};

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// Bytes after the apostrophe at `position` that make a contraction: s t m d re ve ll; else 0.
template <bool kIgnoreCase, Cuts kCuts>
size_t contraction_bytes(const Reader<kCuts>& reader, size_t position) {
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

// The end of a contraction at `position`; `position` if there is none.
size_t contraction_end(const Reader<Cuts::kNone>& reader, size_t position) {
  if (reader.byte_at(position) != '\'') {
    return position;
  }
  const size_t bytes = contraction_bytes<true>(reader, position);
  return bytes > 0 ? position + 1 + bytes : position;
}

// \p{N}{1,max} at a number.
size_t number_end(std::string_view text, size_t begin, int max_digits) {
  const Reader<Cuts::kNone> reader(text);
  size_t end = begin;
  for (int digits = 0; digits < max_digits; ++digits) {
    const Char c = reader.at(end);
    if (!c.is(kNumber)) {
      break;
    }
    end += c.length;
  }
  return end;
}

template <Cuts kCuts>
size_t gpt2_end(std::string_view text, size_t begin) {
  const Reader<kCuts> reader(text);
  if (text[begin] == '\'') {
    if (const size_t bytes = contraction_bytes<false>(reader, begin)) {
      return begin + 1 + bytes;
    }
  }
  const auto run_of = [](Char c) {
    return c.is(kLetter) ? kLetter : c.is(kNumber) ? kNumber : kNotWord;
  };
  const Char first = reader.at(begin);
  if (text[begin] == ' ') {
    const Char second = reader.at(begin + 1);
    if (!second.is(kAnySpace | kEnd)) {
      return reader.run_end(begin + 1, run_of(second));
    }
  }
  if (first.is(kAnySpace)) {
    return reader.space_run_end(begin);
  }
  return reader.run_end(begin, run_of(first));
}

size_t smollm_end(std::string_view text, size_t begin) {
  if (Reader<Cuts::kNumeric>(text).at(begin).is(kEnd)) {
    return begin + decode_code_point(text, begin).length;
  }
  return gpt2_end<Cuts::kNumeric>(text, begin);
}

size_t llama_end(std::string_view text, size_t begin, int max_digits) {
  const Reader<Cuts::kNone> reader(text);
  if (const size_t end = contraction_end(reader, begin); end > begin) {
    return end;
  }
  const Char first = reader.at(begin);
  const size_t next = begin + first.length;
  if (first.is(kLetter)) {
    return reader.run_end(next, kLetter);
  }
  if (first.is(kNumber)) {
    return number_end(text, begin, max_digits);
  }
  const Char second = reader.at(next);
  if (!first.is(kNewline) && second.is(kLetter)) {
    return reader.run_end(next, kLetter);
  }
  if (first.is(kNotWord) || (text[begin] == ' ' && second.is(kNotWord))) {
    return reader.run_end(reader.run_end(next, kNotWord), kNewline);
  }
  return reader.newline_or_space_end(begin);
}

// X?U*L+|X?U+L* without contractions, where X is [^\r\n\p{L}\p{N}]; `begin` if neither matches.
size_t cased_word_end(const Reader<Cuts::kNone>& reader, size_t begin) {
  const Char first = reader.at(begin);
  const bool has_prefix = first.is(kNotWord | kSpace);
  const size_t word = has_prefix ? begin + first.length : begin;
  size_t upper_end = word;
  size_t last_both = word;  // the end of the last character of the run that is in L too
  Char c = reader.at(upper_end);
  while (c.is(kUpperLike)) {
    upper_end += c.length;
    last_both = c.is(kLowerLike) ? upper_end : last_both;
    c = reader.at(upper_end);
  }
  if (c.is(kLower)) {
    return reader.run_end(upper_end, kLowerLike);
  }
  if (last_both > word) {
    return last_both;  // U* gives back all behind it, and the one character is L+
  }
  if (first.is(kMark)) {
    return word;  // no prefix then: the mark itself is L+
  }
  return upper_end > word ? upper_end : begin;
}

size_t gpt4o_end(std::string_view text, size_t begin, int max_digits, bool contractions) {
  const Reader<Cuts::kNone> reader(text);
  if (const size_t end = cased_word_end(reader, begin); end > begin) {
    return contractions ? contraction_end(reader, end) : end;
  }
  const Char first = reader.at(begin);
  if (first.is(kNumber)) {
    return number_end(text, begin, max_digits);
  }
  const size_t next = begin + first.length;
  if (first.is(kNotWord) || (text[begin] == ' ' && reader.at(next).is(kNotWord))) {
    size_t end = reader.run_end(next, kNotWord);
    while (reader.at(end).is(kNewline) || reader.byte_at(end) == '/') {
      ++end;
    }
    return end;
  }
  return reader.newline_or_space_end(begin);
}

// deepseek-v3 between numbers and East Asian runs, at a character that no run of unmatched ones
// begins with; `begin` if nothing matches there.
size_t deepseek_match_end(const Reader<Cuts::kNumberOrEastAsian>& reader, size_t begin) {
  const Char first = reader.at(begin);
  const size_t next = begin + first.length;
  if (first.is(kPunctuation) && first.length == 1 && is_ascii_letter(reader.byte_at(next))) {
    size_t end = next;
    while (is_ascii_letter(reader.byte_at(end))) {
      ++end;
    }
    return end;
  }
  if (first.is(kLetter | kMark)) {
    return reader.run_end(next, kLetter | kMark);
  }
  const Char second = reader.at(next);
  if (first.is(kSpace | kOther) && second.is(kLetter | kMark)) {
    return reader.run_end(next, kLetter | kMark);
  }
  if (first.is(kPunctuation) || (reader.byte_at(begin) == ' ' && second.is(kPunctuation))) {
    return reader.run_end(reader.run_end(next, kPunctuation), kNewline);
  }
  return first.is(kAnySpace) ? reader.newline_or_space_end(begin) : begin;
}

size_t deepseek_end(std::string_view text, size_t begin) {
  const Reader<Cuts::kNumberOrEastAsian> reader(text);
  if (reader.at(begin).is(kEnd)) {
    const size_t numbers = number_end(text, begin, 3);
    if (numbers > begin) {
      return numbers;
    }
    size_t end = begin;
    while (end < text.size()) {
      const CodePoint c = decode_code_point(text, end);
      if (!is_east_asian(c.value)) {
        break;
      }
      end += c.length;
    }
    return end;
  }
  if (const size_t end = deepseek_match_end(reader, begin); end > begin) {
    return end;
  }
  // Characters that nothing matches make one piece, up to where something matches again.
  size_t end = begin;
  do {
    end += reader.at(end).length;
  } while (!reader.at(end).is(kEnd) && deepseek_match_end(reader, end) == end);
  return end;
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
      return gpt2_end<Cuts::kNone>(text, begin);
    case PreTokenizer::kSmolLm:
      return smollm_end(text, begin);
    case PreTokenizer::kLlamaBpe:
      return llama_end(text, begin, 3);
    case PreTokenizer::kQwen2:
      return llama_end(text, begin, 1);
    case PreTokenizer::kGpt4o:
      return gpt4o_end(text, begin, 3, true);
    case PreTokenizer::kTekken:
      return gpt4o_end(text, begin, 1, false);
    case PreTokenizer::kDeepSeekV3:
      return deepseek_end(text, begin);
  }
  return text.size();
}

}  // namespace baton::tokenizer
