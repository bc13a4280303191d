#pragma once

// From a conversation to the tokens of its prompt: the model's chat template, then tokenisation in
// which the template's own special tokens count and those that users write in their messages are
// plain text.

#include <chrono>
#include <optional>

#include "common/config/config.h"
#include "common/tokenizer/chat_template/chat_template.h"
#include "common/tokenizer/special_tokens.h"
#include "router/api/request.h"
#include "router/tool_calls/template_traits.h"

namespace baton::router {

// A conversation, ready to be answered.
struct ChatTurn {
  std::vector<TokenId> tokens;
  AnswerForm answer;  // how the text that follows is to be read
};

class ChatPrompt {
 public:
  struct Options {
    config::ToolFormat tool_format = config::ToolFormat::kAuto;
    config::Reasoning reasoning = config::Reasoning::kAuto;
  };
  // `tokenizer` outlives this. A tokenizer without a template gives a ChatPrompt that refuses
  // every conversation by name.
  static Result<ChatPrompt> create(const tokenizer::Tokenizer& tokenizer, Options options);

  // Thread-safe. invalid_argument with the template's own words when it refuses the conversation.
  Result<ChatTurn> turn(const ApiRequest& request, std::chrono::sys_seconds now) const;

 private:
  explicit ChatPrompt(const tokenizer::Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  void find_special_texts();
  // A template with what was found out about it.
  struct Studied {
    chat_template::ChatTemplate chat;
    TemplateTraits traits;
    AnswerForm form;  // of every answer; what a request adds is added to a copy
  };
  Result<Studied> study(const std::string& source, const Options& options) const;
  Result<chat_template::RenderInput> input_of(const ApiRequest& request, const Studied& studied,
                                              std::vector<std::string>& hidden) const;
  AnswerForm answer_form(const ApiRequest& request, AnswerForm form,
                         std::string_view rendered) const;
  std::string text_of(std::optional<TokenId> id) const;
  boost::json::value hide_special(const boost::json::value& value,
                                  std::vector<std::string>& hidden) const;
  std::vector<TokenId> encode(std::string_view rendered,
                              const std::vector<std::string>& hidden) const;
  size_t special_at(std::string_view text) const;

  const tokenizer::Tokenizer* tokenizer_;
  std::optional<Studied> plain_;
  std::optional<Studied> with_tools_;       // where the model has a template of its own for them
  tokenizer::SpecialTokenMatcher special_;  // and the mark of what is hidden
};

}  // namespace baton::router
