#pragma once

// Pre-tokenizers: the split of a text into the pieces inside which BPE merges.
//
// Each family defines its split by a regular expression. They are hand-written scanners here, since
// backtracking engines die or go quadratic on long runs of one character; the scanners look at each
// byte a constant number of times. Character classes come from tables made by
// unicode/generate_tables.py with the `tokenizers` package itself.
//
//   gpt-2        's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   smollm       every numeric character alone, then gpt-2 on each part between them
//   llama-bpe    (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
//                ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//   qwen2        llama-bpe with \p{N} instead of \p{N}{1,3}
//   gpt-4o       [^\r\n\p{L}\p{N}]?U*L+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
//   (llama4)     [^\r\n\p{L}\p{N}]?U+L*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|
//                ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
//                where U is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and L is [\p{Ll}\p{Lm}\p{Lo}\p{M}]
//   tekken       gpt-4o without the contractions and with \p{N}
//   deepseek-v3  \p{N}{1,3}; then, on what lies between, [一-龥぀-ゟ゠-ヿ]+; then, on the
//   rest,
//                P[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|
//                \s+(?!\S)|\s+, where P is an ASCII punctuation character; what nothing matches is
//                a piece too
//
// A byte that is not UTF-8 counts as a character of no class.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::tokenizer {

enum class PreTokenizer : uint8_t {
  kGpt2,
  kSmolLm,
  kLlamaBpe,
  kQwen2,
  kGpt4o,
  kTekken,
  kDeepSeekV3,
};

// By the name that tokenizer.ggml.pre has; nothing for a name that is not supported.
std::optional<PreTokenizer> pre_tokenizer_by_name(std::string_view name);
// "deepseek-v3, gpt-2, gpt-4o, ..."
std::string supported_pre_tokenizers();

// The end of the piece that begins at `begin`; pieces cover the text without gaps. Precondition:
// begin < text.size() and begin is 0 or an end that this function returned for the same text.
// Thread-safe. O(length of the piece + 1) over a whole text.
size_t next_piece_end(PreTokenizer pre_tokenizer, std::string_view text, size_t begin);

}  // namespace baton::tokenizer
