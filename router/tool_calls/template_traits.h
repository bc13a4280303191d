#pragma once

// What a chat template does with tools, calls and reasoning, found out by rendering small
// conversations with it.

#include <optional>
#include <string>
#include <string_view>

#include "common/tokenizer/chat_template/chat_template.h"
#include "router/tool_calls/answer_form.h"

namespace baton::router {

struct TemplateTraits {
  // Prints `tools`, and calls and their results in messages. False: they are written into the
  // messages instead (history.h).
  bool has_tools = false;
  bool arguments_as_text = false;  // wants them as a JSON string, not as an object
  bool short_ids = false;          // refuses call ids other than nine letters and digits
  bool single_call = false;        // refuses messages with two calls
  bool has_system = false;         // prints a system message
  bool has_developer = false;      // prints a developer message
};

// `bos` and `eos` as for every render. Never fails: what a template refuses it does not have.
TemplateTraits traits_of(const chat_template::ChatTemplate& chat, const std::string& bos,
                         const std::string& eos);

// The form of calls that the template's source shows; nothing when it shows none that is known.
std::optional<CallForm> call_form_in(std::string_view source);

}  // namespace baton::router
