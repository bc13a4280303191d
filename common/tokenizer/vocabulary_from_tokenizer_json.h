#pragma once

// The tokenizer of a HuggingFace model folder as plain data.
//
// tokenizer.json is read strictly: what it may say is what Baton does, and an unknown step, key or
// value is refused in one line that names it. Its `truncation` and `padding` are not for servers
// and are not read. Of the files beside it only what concerns tokens is read:
//
//   tokenizer_config.json    bos_token, eos_token, pad_token, add_bos_token, chat_template
//   special_tokens_map.json  bos_token, eos_token, pad_token, where the former has none
//   generation_config.json   eos_token_id, one or a list: all of them end a generation
//   chat_template.jinja      goes before the chat_template of tokenizer_config.json
//
// BOS goes before a text when add_bos_token says so, or where it is absent when the post_processor
// does. Ids that no token has are unused tokens, so that a vocabulary with holes keeps its numbers.

#include <string>

#include "common/base/status.h"
#include "common/tokenizer/vocabulary.h"

namespace baton::tokenizer {

// The contents of a folder's files; empty where there is none.
struct TokenizerTexts {
  std::string tokenizer;  // tokenizer.json
  std::string tokenizer_config;
  std::string special_tokens_map;
  std::string generation_config;
  std::string chat_template;  // chat_template.jinja
};

// not_found: no tokenizer.json; resource_exhausted: a file larger than any published one.
Result<TokenizerTexts> read_tokenizer_texts(const std::string& folder);

// invalid_argument: not JSON, a value of another type, a contradiction; unsupported: something that
// Baton does not do. Messages begin with the file's name. What merges and ids mean is checked by
// Tokenizer::create.
Result<VocabularySpec> vocabulary_from_tokenizer_json(const TokenizerTexts& texts);

}  // namespace baton::tokenizer
