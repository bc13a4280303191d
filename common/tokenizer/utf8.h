#pragma once

// UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing above U+10FFFF.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace baton::tokenizer {

inline constexpr char32_t kInvalidCodePoint = 0xFFFFFFFF;
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

struct CodePoint {
  char32_t value;   // kInvalidCodePoint when the byte at the position starts no valid sequence
  uint32_t length;  // bytes; 1 when invalid
};
// Precondition: position < text.size().
CodePoint decode_code_point(std::string_view text, size_t position);

// Precondition: code_point is a Unicode scalar value.
void append_utf8(std::string& out, char32_t code_point);

bool is_valid_utf8(std::string_view text);

// Makes valid UTF-8 out of bytes that arrive in pieces. Invalid input is replaced by U+FFFD once
// per maximal subpart (Unicode 3.9, table 3-8; the WHATWG decoder does the same), as soon as it is
// known to be invalid. Cutting the input differently never changes the joined output.
class Utf8Assembler final {
 public:
  // Appends what is complete.
  void append(std::string_view bytes, std::string& out);
  // Appends one U+FFFD if a sequence was cut off, and forgets it.
  void finish(std::string& out);

  size_t held_bytes() const { return held_; }

 private:
  bool take(uint8_t byte, std::string& out);

  std::array<char, 4> pending_{};
  uint8_t held_ = 0;    // bytes in pending_, 0..3
  uint8_t needed_ = 0;  // continuation bytes still to come
  uint8_t low_ = 0x80;  // range of the next continuation byte
  uint8_t high_ = 0xBF;
};

}  // namespace baton::tokenizer
