#pragma once

// Normalisation form C (Unicode Standard Annex 15): characters that can be written in several ways
// are brought to one. Qwen's tokenizers are trained on it.

#include <optional>
#include <string>
#include <string_view>

namespace baton::tokenizer {

// `text` in form C, or nothing when it is so already. Bytes that are not UTF-8 stay as they are.
// Thread-safe. O(n).
std::optional<std::string> to_nfc(std::string_view text);

}  // namespace baton::tokenizer
