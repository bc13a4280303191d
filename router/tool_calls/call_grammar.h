#pragma once

// Restricts an answer to calls (`tool_choice` required or a named function), or to calls and an
// answer in JSON (`auto` beside `response_format`).

#include "common/base/status.h"
#include "common/wire/messages.h"
#include "router/tool_calls/answer_form.h"
#include "router/tool_calls/tools.h"

namespace baton::router {

// Sets the grammar of `sampling`; leaves it alone where nothing has to be restricted. The errors
// are the request's: those of a function's schema, with its name, and invalid_argument when the
// answer already has a form that a call cannot have.
Status restrict_to_calls(const ToolRequest& tools, const AnswerForm& form,
                         wire::SamplingSpec& sampling);

}  // namespace baton::router
