#include "common/tokenizer/utf8.h"

namespace baton::tokenizer {
namespace {

// What a lead byte asks for. The range of the second byte is what excludes overlong forms,
// surrogates and code points above U+10FFFF (Unicode 3.9, table 3-7).
struct Lead {
  uint8_t continuation_bytes;  // 0 with low > high: the byte cannot begin a sequence
  uint8_t low;
  uint8_t high;
};

constexpr Lead lead_of(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) {
    return {1, 0x80, 0xBF};
  }
  if (byte >= 0xE0 && byte <= 0xEF) {
    return {2, static_cast<uint8_t>(byte == 0xE0 ? 0xA0 : 0x80),
            static_cast<uint8_t>(byte == 0xED ? 0x9F : 0xBF)};
  }
  if (byte >= 0xF0 && byte <= 0xF4) {
    return {3, static_cast<uint8_t>(byte == 0xF0 ? 0x90 : 0x80),
            static_cast<uint8_t>(byte == 0xF4 ? 0x8F : 0xBF)};
  }
  return {0, 0xFF, 0x00};
}

}  // namespace

CodePoint decode_code_point(std::string_view text, size_t position) {
  const auto byte_at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte_at(position);
  if (first < 0x80) {
    return {first, 1};
  }
  const Lead lead = lead_of(first);
  const size_t length = size_t{lead.continuation_bytes} + 1;
  if (lead.continuation_bytes == 0 || text.size() - position < length) {
    return {kInvalidCodePoint, 1};
  }
  if (byte_at(position + 1) < lead.low || byte_at(position + 1) > lead.high) {
    return {kInvalidCodePoint, 1};
  }
  char32_t value = first & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    const uint8_t byte = byte_at(position + i);
    if ((byte & 0xC0) != 0x80) {
      return {kInvalidCodePoint, 1};
    }
    value = (value << 6) | (byte & 0x3Fu);
  }
  return {value, static_cast<uint32_t>(length)};
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto continuation = [&](int shift) {
    out.push_back(static_cast<char>(0x80 | ((code_point >> shift) & 0x3F)));
  };
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out.push_back(static_cast<char>(0xC0 | (code_point >> 6)));
    continuation(0);
  } else if (code_point < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | (code_point >> 12)));
    continuation(6);
    continuation(0);
  } else {
    out.push_back(static_cast<char>(0xF0 | (code_point >> 18)));
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

bool is_valid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_code_point(text, i);
    if (c.value == kInvalidCodePoint) {
      return false;
    }
    i += c.length;
  }
  return true;
}

// False when the byte does not continue the pending sequence; it must then be taken again.
bool Utf8Assembler::take(uint8_t byte, std::string& out) {
  if (needed_ == 0) {
    const Lead lead = lead_of(byte);
    if (byte < 0x80) {
      out.push_back(static_cast<char>(byte));
    } else if (lead.continuation_bytes == 0) {
      out += kReplacementCharacter;
    } else {
      pending_[0] = static_cast<char>(byte);
      held_ = 1;
      needed_ = lead.continuation_bytes;
      low_ = lead.low;
      high_ = lead.high;
    }
    return true;
  }
  if (byte < low_ || byte > high_) {
    finish(out);
    return false;
  }
  pending_[held_++] = static_cast<char>(byte);
  low_ = 0x80;
  high_ = 0xBF;
  if (--needed_ == 0) {
    out.append(pending_.data(), held_);
    held_ = 0;
  }
  return true;
}

void Utf8Assembler::append(std::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    const uint8_t byte = static_cast<uint8_t>(c);
    if (!take(byte, out)) {
      take(byte, out);
    }
  }
}

void Utf8Assembler::finish(std::string& out) {
  if (held_ > 0) {
    out += kReplacementCharacter;
  }
  held_ = 0;
  needed_ = 0;
}

}  // namespace baton::tokenizer
