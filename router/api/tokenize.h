#pragma once

// The paths around the tokenizer: /tokenize and /detokenize in vLLM's and llama.cpp's forms, and
// /tokenizer_info, which evaluation tools read. Pure functions, safe from any thread.

#include <string_view>

#include "common/http/message.h"
#include "router/api/chat_prompt.h"
#include "router/api/request.h"

namespace baton::router {

// {prompt | messages, add_special_tokens = true} or {content, add_special = false}; parse_special
// (true) and with_pieces (false) with both. Answers {tokens, count, max_model_len}.
http::Response tokenize(std::string_view body, const ServedModel& model, const ChatPrompt& chat,
                        int max_context);
// {tokens} to {prompt, content}, both the text.
http::Response detokenize(std::string_view body, const tokenizer::Tokenizer& tokenizer);
// {tokenizer_class, bos_token, eos_token, chat_template}; what the model lacks is null.
http::Response tokenizer_info(const tokenizer::Tokenizer& tokenizer);

}  // namespace baton::router
