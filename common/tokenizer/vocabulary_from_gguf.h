#pragma once

// The tokenizer section of a GGUF file as plain data.
//
// Keys: tokenizer.ggml.{model, tokens} must be there, with model llama (SentencePiece) scores too,
// else pre and merges; token_type, {bos, eos, eot, eom, unknown, padding}_token_id, add_bos_token,
// add_space_prefix, remove_extra_whitespaces and tokenizer.chat_template may be, and
// tokenizer.chat_template.NAME for the names that tokenizer.chat_templates lists.
// tokenizer.ggml.add_eos_token is not read: Baton continues prompts, so it never closes them.

#include "common/base/status.h"
#include "common/model_file/model_file.h"
#include "common/tokenizer/vocabulary.h"

namespace baton::tokenizer {

// Copies: the result does not need the file. invalid_argument: a key is missing, of another type,
// or an id does not fit. What the names and values mean is checked by Tokenizer::create.
Result<VocabularySpec> vocabulary_from_gguf(const model_file::ModelFile& file);

}  // namespace baton::tokenizer
