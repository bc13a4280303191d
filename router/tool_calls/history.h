#pragma once

// The messages of a conversation, with what they say of tools, as a model's template wants them.

#include <string_view>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "common/base/status.h"
#include "router/tool_calls/template_traits.h"

namespace baton::router {

// invalid_argument when the calls in a message (`tool_calls`, `function_call`, `tool_call_id`) have
// not the shape of the API.
Status check_calls(const boost::json::object& message);

// Precondition: check_calls() of every message; contents are strings. The older `function_call` and
// role `function` become calls. A template without tools is told of them by its system message, or
// the first user message, and reads calls and results as text in the given form.
boost::json::array messages_for(const boost::json::array& messages, const boost::json::array& tools,
                                const TemplateTraits& traits, CallForm form);

}  // namespace baton::router
