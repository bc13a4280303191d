#include "common/tokenizer/chat_template/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "common/tokenizer/chat_template/unicode_tables.h"

namespace baton::chat_template {
namespace {

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

bool is_line_end(uint32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

const SpecialCase* special_case(uint32_t c) {
  const SpecialCase* end = kSpecialCases + kSpecialCasesSize;
  const SpecialCase* it = std::lower_bound(
      kSpecialCases, end, c, [](const SpecialCase& s, uint32_t v) { return s.code_point < v; });
  return it != end && it->code_point == c ? it : nullptr;
}

uint32_t map_case(uint32_t c, const CaseRun* runs, size_t size) {
  const CaseRun* end = runs + size;
  const CaseRun* it =
      std::lower_bound(runs, end, c, [](const CaseRun& r, uint32_t v) { return r.last < v; });
  if (it == end || c < it->first || (c - it->first) % it->step != 0) {
    return c;
  }
  return static_cast<uint32_t>(static_cast<int64_t>(c) + it->delta);
}

enum class Case : uint8_t { kLower, kUpper, kTitle };

void append_mapped(uint32_t c, Case to, std::string& out) {
  if (c < 0x80) {
    const bool change = to == Case::kLower ? (c >= 'A' && c <= 'Z') : (c >= 'a' && c <= 'z');
    out += static_cast<char>(change ? c ^ 0x20 : c);
    return;
  }
  if (const SpecialCase* special = special_case(c)) {
    out += to == Case::kLower   ? special->lower
           : to == Case::kUpper ? special->upper
                                : special->title;
    return;
  }
  append_code_point(to == Case::kLower ? map_case(c, kLowerRuns, kLowerRunsSize)
                                       : map_case(c, kUpperRuns, kUpperRunsSize),
                    out);
}

std::string map_text(std::string_view text, Case to) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    append_mapped(next_code_point(text, at), to, out);
  }
  return out;
}

// The start of the code point that ends before `end`.
size_t previous_start(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && is_continuation(static_cast<unsigned char>(text[at]))) {
    --at;
  }
  return at;
}

void append_hex(uint32_t value, int digits, std::string& out) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) {
    out += kDigits[(value >> shift) & 0xF];
  }
}

void append_json_escape(uint32_t unit, std::string& out) {
  out += "\\u";
  append_hex(unit, 4, out);
}

std::vector<std::string_view> split_at_spaces(std::string_view text, int64_t max_splits) {
  std::vector<std::string_view> parts;
  size_t at = 0;
  while (true) {
    const std::string_view rest = strip(text.substr(at), Side::kLeft, std::nullopt);
    if (rest.empty()) {
      return parts;
    }
    if (max_splits >= 0 && static_cast<int64_t>(parts.size()) >= max_splits) {
      // Python keeps trailing whitespace here.
      parts.push_back(rest);
      return parts;
    }
    at = text.size() - rest.size();
    const size_t start = at;
    size_t end = at;
    while (at < text.size()) {
      end = at;
      if (is_space(next_code_point(text, at))) {
        break;
      }
      end = at;
    }
    parts.push_back(text.substr(start, end - start));
    at = end;
  }
}

std::vector<std::string_view> rsplit_at_spaces(std::string_view text, int64_t max_splits) {
  std::vector<std::string_view> parts;
  while (true) {
    text = strip(text, Side::kRight, std::nullopt);
    if (text.empty()) {
      break;
    }
    if (max_splits >= 0 && static_cast<int64_t>(parts.size()) >= max_splits) {
      parts.push_back(text);
      break;
    }
    size_t start = text.size();
    while (start > 0) {
      const size_t previous = previous_start(text, start);
      size_t at = previous;
      if (is_space(next_code_point(text, at))) {
        break;
      }
      start = previous;
    }
    parts.push_back(text.substr(start));
    text = text.substr(0, start);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const size_t length = lead < 0x80   ? 1
                          : lead < 0xC2 ? 0
                          : lead < 0xE0 ? 2
                          : lead < 0xF0 ? 3
                          : lead < 0xF5 ? 4
                                        : 0;
    if (length == 0 || text.size() - at < length) {
      return false;
    }
    for (size_t i = 1; i < length; ++i) {
      if (!is_continuation(static_cast<unsigned char>(text[at + i]))) {
        return false;
      }
    }
    const auto second = length > 1 ? static_cast<unsigned char>(text[at + 1]) : 0;
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
        (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) {
      return false;
    }
    at += length;
  }
  return true;
}

size_t count_code_points(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return !is_continuation(static_cast<unsigned char>(c));
  }));
}

uint32_t next_code_point(std::string_view text, size_t& at) {
  const auto lead = static_cast<unsigned char>(text[at++]);
  if (lead < 0x80) {
    return lead;
  }
  uint32_t value = lead < 0xE0 ? lead & 0x1Fu : lead < 0xF0 ? lead & 0x0Fu : lead & 0x07u;
  while (at < text.size() && is_continuation(static_cast<unsigned char>(text[at]))) {
    value = (value << 6) | (static_cast<unsigned char>(text[at++]) & 0x3Fu);
  }
  return value;
}

void append_code_point(uint32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

std::vector<uint32_t> to_code_points(std::string_view text) {
  std::vector<uint32_t> out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    out.push_back(next_code_point(text, at));
  }
  return out;
}

bool is_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_printable(uint32_t c) {
  const CodePointRange* end = kUnprintable + kUnprintableSize;
  const CodePointRange* it = std::lower_bound(
      kUnprintable, end, c, [](const CodePointRange& r, uint32_t v) { return r.last < v; });
  return it == end || c < it->first;
}

std::string to_lower(std::string_view text) { return map_text(text, Case::kLower); }
std::string to_upper(std::string_view text) { return map_text(text, Case::kUpper); }

std::string capitalize(std::string_view text) {
  std::string out;
  if (!text.empty()) {
    size_t at = 0;
    append_mapped(next_code_point(text, at), Case::kTitle, out);
    out += to_lower(text.substr(at));
  }
  return out;
}

std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> chars) {
  const std::vector<uint32_t> set = chars ? to_code_points(*chars) : std::vector<uint32_t>();
  const auto drop = [&](uint32_t c) {
    return chars ? std::find(set.begin(), set.end(), c) != set.end() : is_space(c);
  };
  size_t begin = 0;
  size_t end = text.size();
  while (side != Side::kRight && begin < end) {
    size_t at = begin;
    if (!drop(next_code_point(text, at))) {
      break;
    }
    begin = at;
  }
  while (side != Side::kLeft && end > begin) {
    const size_t start = previous_start(text, end);
    size_t at = start;
    if (!drop(next_code_point(text, at))) {
      break;
    }
    end = start;
  }
  return text.substr(begin, end - begin);
}

std::vector<std::string_view> split(std::string_view text,
                                    std::optional<std::string_view> separator, int64_t max_splits) {
  if (!separator) {
    return split_at_spaces(text, max_splits);
  }
  std::vector<std::string_view> parts;
  size_t start = 0;
  while (max_splits < 0 || static_cast<int64_t>(parts.size()) < max_splits) {
    const size_t hit = text.find(*separator, start);
    if (hit == std::string_view::npos) {
      break;
    }
    parts.push_back(text.substr(start, hit - start));
    start = hit + separator->size();
  }
  parts.push_back(text.substr(start));
  return parts;
}

std::vector<std::string_view> rsplit(std::string_view text,
                                     std::optional<std::string_view> separator,
                                     int64_t max_splits) {
  if (!separator) {
    return rsplit_at_spaces(text, max_splits);
  }
  std::vector<std::string_view> parts;
  size_t end = text.size();
  while (max_splits < 0 || static_cast<int64_t>(parts.size()) < max_splits) {
    const size_t hit = text.substr(0, end).rfind(*separator);
    if (hit == std::string_view::npos) {
      break;
    }
    parts.push_back(text.substr(hit + separator->size(), end - hit - separator->size()));
    end = hit;
  }
  parts.push_back(text.substr(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const uint32_t c = next_code_point(text, at);
    if (!is_line_end(c)) {
      continue;
    }
    if (c == '\r' && at < text.size() && text[at] == '\n') {
      ++at;
    }
    lines.push_back(text.substr(start, (keep_ends ? at : end) - start));
    start = at;
  }
  if (start < text.size()) {
    lines.push_back(text.substr(start));
  }
  return lines;
}

std::string replace(std::string_view text, std::string_view from, std::string_view to,
                    int64_t count) {
  std::string out;
  int64_t done = 0;
  size_t at = 0;
  while (count < 0 || done < count) {
    if (from.empty()) {
      // Python puts `to` before every code point and at the end.
      out += to;
      if (at >= text.size()) {
        return out;
      }
      const size_t start = at;
      next_code_point(text, at);
      out += text.substr(start, at - start);
    } else {
      const size_t hit = text.find(from, at);
      if (hit == std::string_view::npos) {
        break;
      }
      out += text.substr(at, hit - at);
      out += to;
      at = hit + from.size();
    }
    ++done;
  }
  out += text.substr(at);
  return out;
}

std::string float_repr(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value < 0 ? "-inf" : "inf";
  }
  std::array<char, 64> buffer{};
  const double magnitude = std::fabs(value);
  const bool fixed = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 fixed ? std::chars_format::fixed : std::chars_format::scientific);
  std::string out(buffer.data(), end.ptr);
  if (fixed && out.find('.') == std::string::npos) {
    out += ".0";
  }
  return out;
}

std::string string_repr(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    const uint32_t c = next_code_point(text, at);
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      out += text.substr(start, at - start);
    } else {
      const int digits = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
      out += digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
      append_hex(c, digits, out);
    }
  }
  out += quote;
  return out;
}

std::string string_json(std::string_view text, bool ensure_ascii) {
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    const uint32_t c = next_code_point(text, at);
    switch (c) {
      case '"':
        out += "\\\"";
        continue;
      case '\\':
        out += "\\\\";
        continue;
      case '\n':
        out += "\\n";
        continue;
      case '\r':
        out += "\\r";
        continue;
      case '\t':
        out += "\\t";
        continue;
      case '\f':
        out += "\\f";
        continue;
      case '\b':
        out += "\\b";
        continue;
      default:
        break;
    }
    if (c < 0x20 || (ensure_ascii && c >= 0x7F && c < 0x10000)) {
      append_json_escape(c, out);
    } else if (ensure_ascii && c >= 0x10000) {
      append_json_escape(0xD800 + ((c - 0x10000) >> 10), out);
      append_json_escape(0xDC00 + ((c - 0x10000) & 0x3FF), out);
    } else {
      out += text.substr(start, at - start);
    }
  }
  out += '"';
  return out;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace baton::chat_template
