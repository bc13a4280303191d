#pragma once

// The tokenizer section of a GGUF file as plain data.
//
// Keys: tokenizer.ggml.{model, pre, tokens, merges} must be there; token_type, {bos, eos, eot, eom,
// unknown, padding}_token_id, add_bos_token and tokenizer.chat_template may be.
// tokenizer.ggml.add_eos_token is not read: Baton continues prompts, so it never closes them.

#include <string>

#include "common/base/status.h"
#include "common/model_file/model_file.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/vocabulary.h"

namespace baton::tokenizer {

// Copies: the result does not need the file. invalid_argument: a key is missing, of another type,
// or an id does not fit. What the names and values mean is checked by Tokenizer::create.
Result<VocabularySpec> vocabulary_from_gguf(const model_file::ModelFile& file);

// The tokenizer of a model file, for programs that need nothing else of it. Errors as
// ModelFile::open, vocabulary_from_gguf and Tokenizer::create; each names the file.
Result<Tokenizer> load_tokenizer(const std::string& path);

}  // namespace baton::tokenizer
