#pragma once

// From a conversation to the tokens of its prompt: the model's chat template, then tokenisation in
// which the template's own special tokens count and those that users write in their messages are
// plain text.

#include <array>
#include <chrono>
#include <optional>

#include "common/tokenizer/chat_template/chat_template.h"
#include "router/api/request.h"

namespace baton::router {

class ChatPrompt {
 public:
  // `tokenizer` outlives this. A tokenizer without a template gives a ChatPrompt that refuses
  // every conversation by name.
  static Result<ChatPrompt> create(const tokenizer::Tokenizer& tokenizer);

  // Thread-safe. invalid_argument with the template's own words when it refuses the conversation.
  Result<std::vector<TokenId>> tokens(const ApiRequest& request,
                                      std::chrono::sys_seconds now) const;

 private:
  explicit ChatPrompt(const tokenizer::Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  boost::json::value hide_special(const boost::json::value& value,
                                  std::vector<std::string>& hidden) const;
  std::vector<TokenId> encode(std::string_view rendered,
                              const std::vector<std::string>& hidden) const;
  size_t special_at(std::string_view text) const;

  const tokenizer::Tokenizer* tokenizer_;
  std::optional<chat_template::ChatTemplate> template_;
  std::vector<std::string> special_;  // texts of special tokens, longest first
  std::array<bool, 256> begins_special_{};
};

}  // namespace baton::router
