#pragma once

// Canonical decompositions, compositions and combining classes as the `tokenizers` package of the
// oracle tests has them; made by generate_nfc_tables.py. Hangul syllables are not in the tables.

#include <cstddef>
#include <cstdint>

namespace baton::tokenizer {

// Ascending by code point: never composed << 63 | code point << 42 | first << 21 | second. One
// step: `first` may decompose further; `second` is 0 for a decomposition to a single character.
extern const uint64_t kCanonicalPairs[];
extern const size_t kCanonicalPairCount;
// Indices of the pairs that compose, ascending by (first, second).
extern const uint16_t kCompositionOrder[];
extern const size_t kCompositionCount;
// Ascending: second parts of compositions that have class 0.
extern const char32_t kJoiningStarters[];
extern const size_t kJoiningStarterCount;
// Ascending: first << 29 | last << 8 | canonical combining class, not 0.
extern const uint64_t kCombiningRanges[];
extern const size_t kCombiningRangeCount;

}  // namespace baton::tokenizer
