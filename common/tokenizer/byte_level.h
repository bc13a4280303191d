#pragma once

// The alphabet in which byte-level vocabularies are written: each byte is one printable character
// (GPT-2's bytes_to_unicode). A space is "Ġ", a newline "Ċ".

#include <optional>
#include <string>
#include <string_view>

namespace baton::tokenizer {

// The bytes that `text` stands for; nothing when a character is not of the alphabet.
std::optional<std::string> bytes_from_byte_level(std::string_view text);
std::string byte_level_from_bytes(std::string_view bytes);

}  // namespace baton::tokenizer
