#pragma once

// How a model writes reasoning and calls into its text. One form a family of models; which one is
// seen in the model's chat template (template_traits.h).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"

namespace baton::router {

enum class CallForm : uint8_t {
  // <tool_call>\n{"name": "f", "arguments": {...}}\n</tool_call>, one after the other
  kHermes,
  // {"name": "f", "parameters": {...}}, alone or after <|python_tag|>; several separated by ";"
  kLlama3,
  // [TOOL_CALLS][{"name": "f", "arguments": {...}}, ...] or [TOOL_CALLS]f[ARGS]{...}
  kMistral,
};

inline constexpr std::string_view kThinkBegin = "<think>";
inline constexpr std::string_view kThinkEnd = "</think>";
inline constexpr std::string_view kToolCallEnd = "</tool_call>";

// The text that begins calls.
std::string_view call_marker(CallForm form);
// All texts with a meaning in the form; some are control tokens, which answers hide otherwise.
std::vector<std::string_view> form_markers(CallForm form);

// How the text of one answer is to be read.
struct AnswerForm {
  CallForm call_form = CallForm::kHermes;
  bool has_calls = false;
  bool single_call = false;  // the template takes no more back in one message
  bool has_reasoning = false;
  bool begins_in_reasoning = false;  // the prompt ends with <think>
  bool begins_in_calls = false;      // the prompt ends with the marker of calls
  bool shows_reasoning = true;
  std::vector<TokenId> shown_ids;  // control tokens that are markers
};

// "call_..." of an answer; nine letters and digits in Mistral's form, whose templates want that.
std::string call_id(CallForm form, std::string_view answer_id, int choice, int call);

}  // namespace baton::router
