#pragma once

// Character classes of all code points, as the `tokenizers` package of the oracle tests sees them
// (its \p{Lu}, \p{N}, \s, ... and Rust's char::is_numeric). Made by generate_tables.py.
//
// Three-stage table: kUnicodeGroupIndex gives for each 512 code points the number of a group,
// kUnicodeBlockIndex for each 32 of a group the number of a block; a block is 2 words of 16 classes
// of 4 bits, lowest first. 14 KB in all.

#include <cstddef>
#include <cstdint>

namespace baton::tokenizer {

enum class CharClass : uint8_t {
  kOther = 0,        // control, format, private, unassigned
  kUpper = 1,        // \p{Lu}, \p{Lt}
  kLower = 2,        // \p{Ll}
  kCaseless = 3,     // \p{Lm}, \p{Lo}
  kMark = 4,         // \p{M}
  kNumber = 5,       // \p{N}
  kSpace = 6,        // \s
  kPunctuation = 7,  // \p{P}, \p{S}
};

struct CodePointRange {
  char32_t first;
  char32_t last;
};

extern const uint8_t kUnicodeGroupIndex[];
extern const uint16_t kUnicodeBlockIndex[];
extern const uint64_t kUnicodeBlockWords[];
// Code points that char::is_numeric takes for numbers and \p{N} does not: it is of a newer Unicode.
extern const CodePointRange kOtherNumericRanges[];
extern const size_t kOtherNumericRangeCount;

// kOther for values above U+10FFFF.
inline CharClass char_class(char32_t code_point) {
  if (code_point > 0x10FFFF) {
    return CharClass::kOther;
  }
  const size_t group = kUnicodeGroupIndex[code_point >> 9];
  const size_t block = kUnicodeBlockIndex[group * 16 + ((code_point >> 5) & 15)];
  const uint64_t word = kUnicodeBlockWords[block * 2 + ((code_point >> 4) & 1)];
  return static_cast<CharClass>((word >> ((code_point & 15) * 4)) & 15);
}

inline bool is_other_numeric(char32_t code_point) {
  for (size_t i = 0; i < kOtherNumericRangeCount; ++i) {
    if (code_point >= kOtherNumericRanges[i].first && code_point <= kOtherNumericRanges[i].last) {
      return true;
    }
  }
  return false;
}

}  // namespace baton::tokenizer
