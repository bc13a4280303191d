#pragma once

// JSON schemas (the common part of drafts 6 to 2020-12) as expressions of a grammar.
//
// Enforced: type (one or several), enum, const, properties, required, additionalProperties, items,
// prefixItems, minItems, maxItems, minLength, maxLength, pattern, format (date, time, date-time,
// uuid, ipv4, email, hostname), minimum, maximum, exclusiveMinimum, exclusiveMaximum (whole
// numbers), anyOf, oneOf (read as anyOf), allOf of one schema, $ref to places in the same schema
// (also recursive), boolean schemas.
// Annotations (title, description, default, examples, ...) mean nothing here. Every other keyword
// is refused by its name and place, never ignored.
//
// What is written satisfies the schema; not everything that satisfies it can be written: members
// come in the order of `properties`, members that the schema does not name are written only where
// it says additionalProperties (or names none at all), whitespace and digits are bounded
// (json_text.h).

#include <string_view>

#include "common/base/status.h"
#include "common/grammar/expressions.h"
#include "common/grammar/json_text.h"

namespace baton::grammar {

inline constexpr int kMaxSchemaDepth = 64;

// Defines rule 0 of `out`. invalid_argument: not JSON, or no schema (an unknown type, a reference
// to nothing, bounds that cross); unsupported: a keyword as above.
Status read_json_schema(std::string_view text, Expressions& out);
// Defines `rule`; `parts`, of the same pool, may serve several schemas.
Status read_json_schema(std::string_view text, int32_t rule, JsonText& parts, Expressions& out);

}  // namespace baton::grammar
