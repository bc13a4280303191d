#pragma once

// Pre-tokenizers: the split of a text into the pieces inside which BPE merges.
//
// Each family defines its split by a regular expression. They are hand-written scanners here, since
// backtracking engines die or go quadratic on long runs of one character; the scanners look at each
// byte a constant number of times. Character classes come from tables made by
// unicode/generate_tables.py with the `tokenizers` package itself.
//
//   gpt-2      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   smollm     every numeric character alone, then gpt-2 on each part between them
//   llama-bpe  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
//              ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//   qwen2      llama-bpe with \p{N} instead of \p{N}{1,3}
//
// A byte that is not UTF-8 counts as a character that is neither letter, number nor space.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::tokenizer {

enum class PreTokenizer : uint8_t { kGpt2, kSmolLm, kLlamaBpe, kQwen2 };

// By the name that tokenizer.ggml.pre has; nothing for a name that is not supported.
std::optional<PreTokenizer> pre_tokenizer_by_name(std::string_view name);
// "gpt-2, llama-bpe, qwen2, smollm"
std::string supported_pre_tokenizers();

// The end of the piece that begins at `begin`; pieces cover the text without gaps. Precondition:
// begin < text.size() and begin is 0 or an end that this function returned for the same text.
// Thread-safe. O(length of the piece + 1) over a whole text.
size_t next_piece_end(PreTokenizer pre_tokenizer, std::string_view text, size_t begin);

}  // namespace baton::tokenizer
