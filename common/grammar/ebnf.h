#pragma once

// Grammars as text, in the notation of llama.cpp (GBNF) and XGrammar:
//
//   root ::= "yes" | number ("," number)*     # a comment
//   number ::= [0-9]+ | 'n'{2,3} | .
//
// A rule ends where the next `name ::=` begins. "..." and '...' know the escapes of C and those of
// hexadecimal code points (x41, u00e4 behind a backslash); [...] also the classes d, w, s. `root`
// is the whole text.

#include <span>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/grammar/expressions.h"

namespace baton::grammar {

inline constexpr int kMaxEbnfDepth = 100;
inline constexpr int kMaxEbnfRules = 4096;

// Defines rule 0 of `out` as `root`. invalid_argument with the place, or naming a rule that is
// missing or defined twice.
Status read_ebnf(std::string_view text, Expressions& out);
// The same, and the rules schema-1, schema-2, ... are these JSON schemas. Errors also as of
// json_schema.h.
Status read_ebnf_with_schemas(std::string_view text, std::span<const std::string> schemas,
                              Expressions& out);

}  // namespace baton::grammar
