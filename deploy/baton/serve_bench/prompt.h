#pragma once

// Prompts of a wanted number of tokens for a server whose tokenizer is not known. They are strings
// of common words that the usual vocabularies hold as one token each; how many words make a token,
// and what the server adds, is measured (TokenScale). Every prompt differs from its first words on,
// so that no prefix cache can answer it, unless its plan shares blocks.

#include <cstdint>
#include <string>
#include <string_view>

#include "deploy/baton/serve_bench/plan.h"

namespace baton::serve_bench {

// tokens = overhead + per_word * words
struct TokenScale {
  double per_word = 1;
  double overhead = 0;              // begin token, chat template
  int words_for(int tokens) const;  // at least 1
};

class PromptMaker {
 public:
  // The same salt gives the same prompts: a run takes a new one, so that it does not find its
  // prompts in the server's cache.
  explicit PromptMaker(uint64_t salt) : salt_(salt) {}

  // `number` tells the requests of a run apart.
  std::string text(const PlannedRequest& request, uint64_t number, const TokenScale& scale) const;

 private:
  uint64_t salt_;
};

// What a server understands, and how a request is written for it.
struct Dialect {
  bool chat = false;
  bool ignore_eos = true;  // some servers refuse fields they do not know
  bool include_usage = true;
  std::string model;

  std::string_view path() const { return chat ? "/v1/chat/completions" : "/v1/completions"; }
  // A streamed greedy request of exactly `output_tokens`, as far as the server lets itself be told.
  std::string body(std::string_view prompt, int output_tokens) const;
};

}  // namespace baton::serve_bench
