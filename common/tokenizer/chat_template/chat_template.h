#pragma once

// Chat templates: the Jinja subset that models' templates are written in, with the output of jinja2
// as Hugging Face's transformers configures it (immutable sandbox, trim_blocks, lstrip_blocks, loop
// controls, tojson without escaping). README.md lists what is there and what differs.
//
// A template comes from a model file and may be hostile: parsing and rendering are bounded in size,
// depth and work, and end in an error, never in a crash or a long wait.

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/tokenizer/chat_template/budget.h"
#include "common/tokenizer/chat_template/value.h"

namespace baton::chat_template {

struct RenderInput {
  Value messages;               // a list of dicts: value_json.h
  Value tools = Value::none();  // a list, or none
  bool add_generation_prompt = true;
  // Absent tokens are the empty text.
  std::string bos_token;
  std::string eos_token;
  // Further names for the template (chat_template_kwargs); they win over the above.
  std::vector<std::pair<std::string, Value>> extra;
  // What strftime_now sees, in UTC.
  std::chrono::sys_seconds now{};
};

// Immutable and cheap to copy; any number of threads may render at once.
class ChatTemplate {
 public:
  // invalid_argument for broken syntax and unsupported for what the subset lacks, with the line;
  // resource_exhausted for a source above limits.template_bytes.
  static Result<ChatTemplate> parse(std::string_view source, const Limits& limits = {});

  // invalid_argument with the template's own message when it calls raise_exception, and for errors
  // that jinja2 would raise; unsupported for features that only show at run time;
  // resource_exhausted when a limit is crossed.
  Result<std::string> render(const RenderInput& input) const;

 private:
  struct Parsed;
  ChatTemplate(std::shared_ptr<const Parsed> parsed, const Limits& limits)
      : parsed_(std::move(parsed)), limits_(limits) {}

  std::shared_ptr<const Parsed> parsed_;
  Limits limits_;
};

}  // namespace baton::chat_template
