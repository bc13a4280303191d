#pragma once

// What answers tell about the tokens of a prompt: the parallel lists of a completion's `logprobs`,
// which `echo` begins with the prompt's own tokens, and vLLM's `prompt_logprobs`.

#include <span>
#include <string>
#include <vector>

#include "common/tokenizer/tokenizer.h"
#include "common/wire/messages.h"
#include "router/api/request.h"

namespace baton::router {

// A prompt and the log-probabilities of its tokens but the first; empty when nobody asked.
struct PromptView {
  const Prompt* prompt = nullptr;
  std::span<const wire::TokenLogprob> logprobs;
};

// How the answer writes a token.
class TokenWriter {
 public:
  // Both outlive the writer.
  TokenWriter(const ApiRequest& request, const tokenizer::Tokenizer& tokenizer)
      : request_(request), tokenizer_(tokenizer) {}

  // As a JSON string: its text; for a part of a character what chat, which tells bytes beside it,
  // writes as U+FFFD, and completions as "bytes:\xe6\x97"; "token_id:5" with
  // return_tokens_as_token_ids.
  void append(std::string& out, TokenId id) const;
  // How many characters the token adds to the answer's text; a character in several tokens counts
  // at the first.
  size_t shown_characters(TokenId id) const;
  // Whether the token, as the first of a text, begins with a space that the text does not show
  // (SentencePiece).
  bool begins_with_hidden_space(TokenId id) const;

 private:
  const ApiRequest& request_;
  const tokenizer::Tokenizer& tokenizer_;
};

// The lists `tokens`, `token_logprobs`, `top_logprobs` and `text_offset`.
class LogprobLists {
 public:
  // `text_offset`: characters of the choice's text before the first token that will be added.
  LogprobLists(const TokenWriter& writer, size_t text_offset)
      : writer_(writer), text_offset_(text_offset) {}

  // `logprob` is null for the first token of a prompt, before which nothing was known.
  void add(TokenId id, const wire::TokenLogprob* logprob, size_t top);
  void add_prompt(const PromptView& view, size_t top);
  bool empty() const { return offsets_.empty(); }
  size_t text_offset() const { return text_offset_; }
  std::string json() const;

 private:
  const TokenWriter& writer_;
  size_t text_offset_;
  std::string tokens_, values_, tops_, offsets_;
};

// A JSON number; JSON has no infinity, for which OpenAI writes -9999.
void append_logprob(std::string& out, float logprob);

size_t characters(std::string_view text);

// [null, {"ID": {"logprob", "rank", "decoded_token"}, ...}, ...], an entry for each token.
void append_prompt_logprobs(std::string& out, const PromptView& view, size_t top,
                            const tokenizer::Tokenizer& tokenizer);

}  // namespace baton::router
