#include "common/tokenizer/chat_template/chat_template.h"

#include "common/tokenizer/chat_template/interpreter.h"
#include "common/tokenizer/chat_template/parser.h"
#include "common/tokenizer/chat_template/text.h"

namespace baton::chat_template {

struct ChatTemplate::Parsed {
  Block block;
};

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, const Limits& limits) {
  if (source.size() > limits.template_bytes) {
    return resource_exhausted("chat template: " + std::to_string(source.size()) +
                              " bytes, more than " + std::to_string(limits.template_bytes));
  }
  if (!is_valid_utf8(source)) {
    return invalid_argument("chat template: not valid UTF-8");
  }
  BATON_ASSIGN_OR_RETURN(Block block, parse_template(source));
  return ChatTemplate(std::make_shared<const Parsed>(Parsed{std::move(block)}), limits);
}

Result<std::string> ChatTemplate::render(const RenderInput& input) const {
  std::vector<std::pair<std::string, Value>> names = {
      {"messages", input.messages},
      {"tools", input.tools},
      {"documents", Value::none()},
      {"add_generation_prompt", Value::boolean(input.add_generation_prompt)},
      {"bos_token", Value::string(input.bos_token)},
      {"eos_token", Value::string(input.eos_token)}};
  names.insert(names.end(), input.extra.begin(), input.extra.end());
  Runtime runtime(limits_, input.now);
  return Interpreter(runtime, std::move(names)).run(parsed_->block);
}

}  // namespace baton::chat_template
