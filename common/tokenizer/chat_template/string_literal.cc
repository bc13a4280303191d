#include "common/tokenizer/chat_template/string_literal.h"

#include <charconv>

#include "common/tokenizer/chat_template/text.h"

namespace baton::chat_template {
namespace {

// The character of a one-letter escape, 0 when it is none.
char simple_escape(char c) {
  switch (c) {
    case '\\':
    case '\'':
    case '"':
      return c;
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    default:
      return 0;
  }
}

Status append_checked(uint32_t code_point, std::string& out) {
  if (code_point > 0x10FFFF) {
    return invalid_argument("illegal Unicode character in a string");
  }
  if (code_point >= 0xD800 && code_point < 0xE000) {
    return unsupported("a surrogate in a string");
  }
  append_code_point(code_point, out);
  return {};
}

Status hex_escape(std::string_view text, size_t digits, size_t& at, std::string& out) {
  uint32_t value = 0;
  const std::string_view hex = text.substr(at, digits);
  const auto parsed = std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
  if (hex.size() != digits || parsed.ec != std::errc() || parsed.ptr != hex.data() + digits) {
    return invalid_argument("truncated escape in a string");
  }
  at += digits;
  return append_checked(value, out);
}

Status octal_escape(std::string_view text, size_t& at, std::string& out) {
  uint32_t value = 0;
  for (int i = 0; i < 3 && at < text.size() && text[at] >= '0' && text[at] <= '7'; ++i) {
    value = value * 8 + static_cast<uint32_t>(text[at++] - '0');
  }
  return append_checked(value, out);
}

// Reads what follows a backslash.
Status escape(std::string_view text, size_t& at, std::string& out) {
  const char c = text[at];
  if (const char simple = simple_escape(c); simple != 0) {
    out += simple;
    ++at;
    return {};
  }
  if (c >= '0' && c <= '7') {
    return octal_escape(text, at, out);
  }
  ++at;
  switch (c) {
    case '\n':
      return {};
    case 'x':
      return hex_escape(text, 2, at, out);
    case 'u':
      return hex_escape(text, 4, at, out);
    case 'U':
      return hex_escape(text, 8, at, out);
    case 'N':
      return unsupported("the escape \\N in a string");
    default:
      break;
  }
  if (static_cast<unsigned char>(c) >= 0x80) {
    return unsupported("a backslash before a letter beyond ASCII");
  }
  // Unknown escapes stand for themselves.
  out += '\\';
  out += c;
  return {};
}

}  // namespace

Result<std::string> unescape_literal(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '\\') {
      out += text[at++];
      continue;
    }
    if (++at == text.size()) {
      return invalid_argument("\\ at end of string");
    }
    BATON_RETURN_IF_ERROR(escape(text, at, out));
  }
  return out;
}

}  // namespace baton::chat_template
