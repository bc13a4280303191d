#include "common/grammar/text_reader.h"

#include "common/tokenizer/utf8.h"

namespace baton::grammar {

bool TextReader::take(char c) {
  if (at_end() || text_[at_] != c) {
    return false;
  }
  ++at_;
  return true;
}

bool TextReader::take(std::string_view what) {
  if (!starts_with(what)) {
    return false;
  }
  at_ += what.size();
  return true;
}

int32_t TextReader::take_number(int32_t limit) {
  int64_t value = -1;
  while (peek() >= '0' && peek() <= '9') {
    value = (value < 0 ? 0 : value) * 10 + (peek() - '0');
    ++at_;
    if (value > limit) {
      return -1;
    }
  }
  return static_cast<int32_t>(value);
}

Result<std::pair<int32_t, int32_t>> TextReader::take_bounds(int32_t limit) {
  const int32_t min = take_number(limit);
  int32_t max = min;
  bool limited = true;
  if (take(',')) {
    limited = peek() != '}';
    max = limited ? take_number(limit) : -1;
  }
  if (min < 0 || (limited && max < min) || !take('}')) {
    return error("a repeat that is not {m}, {m,} or {m,n} with m <= n <= " + std::to_string(limit));
  }
  return std::pair(min, max);
}

int32_t TextReader::take_hex(int digits) {
  int32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const char c = peek(static_cast<size_t>(i));
    int32_t digit = -1;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = c - 'A' + 10;
    }
    if (digit < 0) {
      return -1;
    }
    value = value * 16 + digit;
  }
  at_ += static_cast<size_t>(digits);
  return value;
}

char32_t TextReader::take_code_point() {
  const tokenizer::CodePoint point = tokenizer::decode_code_point(text_, at_);
  at_ += point.length;
  return point.value;
}

}  // namespace baton::grammar
