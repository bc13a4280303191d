#pragma once

// Character classes of all code points, as the `tokenizers` package of the oracle tests sees them
// (its \p{L}, \p{N}, \s and Rust's char::is_numeric). The tables are made by generate_tables.py.
//
// Two-stage table: kUnicodeBlockIndex gives for each 256 code points the number of a block, a block
// is 8 words of 32 classes of 2 bits, lowest first. 13 KB in all.

#include <cstddef>
#include <cstdint>

namespace baton::tokenizer {

enum class CharClass : uint8_t { kOther = 0, kLetter = 1, kNumber = 2, kSpace = 3 };

struct CodePointRange {
  char32_t first;
  char32_t last;
};

extern const uint8_t kUnicodeBlockIndex[];
extern const uint64_t kUnicodeBlockWords[];
// Code points that char::is_numeric takes for numbers and \p{N} does not: it is of a newer Unicode.
extern const CodePointRange kOtherNumericRanges[];
extern const size_t kOtherNumericRangeCount;

// kOther for values above U+10FFFF.
inline CharClass char_class(char32_t code_point) {
  if (code_point > 0x10FFFF) {
    return CharClass::kOther;
  }
  const uint64_t word =
      kUnicodeBlockWords[kUnicodeBlockIndex[code_point >> 8] * 8u + ((code_point & 0xFF) >> 5)];
  return static_cast<CharClass>((word >> ((code_point & 31) * 2)) & 3);
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
