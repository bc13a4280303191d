#pragma once

// The functions that a request offers to the model, and whether they may or must be called: the
// fields `tools`, `tool_choice`, `parallel_tool_calls`, and the older `functions`, `function_call`.

#include <cstdint>
#include <string>
#include <vector>

#include <boost/json/array.hpp>

#include "router/api/field_reader.h"

namespace baton::router {

struct Tool {
  std::string name;
  std::string schema;  // of its arguments, as JSON: always of an object
};

enum class ToolChoice : uint8_t { kNone, kAuto, kRequired };

struct ToolRequest {
  boost::json::array offered;  // as the template wants them; empty with `none`
  std::vector<Tool> callable;  // with a named function only that one
  ToolChoice choice = ToolChoice::kNone;
  bool parallel = true;  // more than one call in an answer
  bool legacy = false;   // answers in the shape of `function_call`

  bool may_call() const { return choice != ToolChoice::kNone; }
  bool must_call() const { return choice == ToolChoice::kRequired; }
  bool knows(std::string_view name) const;
};

// Checks names, types and that a choice has its function; schemas are compiled where a call is
// forced (call_grammar.h). Faults go to `fields`.
ToolRequest read_tools(FieldReader& fields);

}  // namespace baton::router
