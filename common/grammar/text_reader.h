#pragma once

// Reads text by code points, with the place of what is wrong. For the readers of this folder.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/status.h"

namespace baton::grammar {

class TextReader {
 public:
  explicit TextReader(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ >= text_.size(); }
  size_t position() const { return at_; }
  void seek(size_t position) { at_ = position; }
  // The next byte, 0 at the end.
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool starts_with(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  bool take(char c);
  bool take(std::string_view what);
  // Decimal digits, at most `limit`; -1 when there is none or it is greater.
  int32_t take_number(int32_t limit);
  // The bounds of a repeat after its "{": m}, m,} or m,n} with m <= n <= limit; n is -1 for no
  // limit.
  Result<std::pair<int32_t, int32_t>> take_bounds(int32_t limit);
  // Exactly `digits` hexadecimal digits; nothing is taken and -1 returned otherwise.
  int32_t take_hex(int digits);
  // The next code point. Bytes that are no UTF-8 are refused by whoever made the reader.
  char32_t take_code_point();
  // "what at byte 17"
  Status error(std::string_view what) const {
    return invalid_argument(std::string(what) + " at byte " + std::to_string(at_));
  }
  Status refuse(std::string_view what) const {
    return unsupported(std::string(what) + " at byte " + std::to_string(at_) + " is not supported");
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace baton::grammar
