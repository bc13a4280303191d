#pragma once

// How SentencePiece vocabularies write spaces, and what is done to the spaces of a text before it
// is merged. In Baton a space is a space everywhere but in the texts of a file's tokens.

#include <string>
#include <string_view>

#include "common/tokenizer/encode_options.h"
#include "common/tokenizer/vocabulary.h"

namespace baton::tokenizer {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

// `text` with a space for each mark.
std::string spaces_from_marks(std::string_view text);

// What of a stretch of text between special tokens is merged: `rules` applied, and marks that the
// text itself has taken for spaces, as in the reference implementation. `after` says what was
// before it. O(n).
std::string with_space_rules(std::string_view text, const SpaceRules& rules,
                             EncodeOptions::After after);

}  // namespace baton::tokenizer
