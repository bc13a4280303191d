#include "common/tokenizer/byte_level.h"

#include <array>
#include <cstdint>

#include "common/tokenizer/utf8.h"

namespace baton::tokenizer {
namespace {

constexpr size_t kAlphabetEnd = 256 + 68;  // 68 bytes have no printable character of their own

constexpr bool is_printable(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<uint16_t, 256> character{};     // by byte
  std::array<int16_t, kAlphabetEnd> byte{};  // by character; -1: not of the alphabet
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (auto& byte : alphabet.byte) {
    byte = -1;
  }
  uint16_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const uint16_t character = is_printable(byte) ? static_cast<uint16_t>(byte) : next++;
    alphabet.character[static_cast<size_t>(byte)] = character;
    alphabet.byte[character] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::optional<std::string> bytes_from_byte_level(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_code_point(text, i);
    if (c.value >= kAlphabetEnd || kAlphabet.byte[c.value] < 0) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(kAlphabet.byte[c.value]));
    i += c.length;
  }
  return bytes;
}

std::string byte_level_from_bytes(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) {
    append_utf8(text, kAlphabet.character[static_cast<uint8_t>(byte)]);
  }
  return text;
}

}  // namespace baton::tokenizer
