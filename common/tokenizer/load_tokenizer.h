#pragma once

#include <string>

#include "common/base/status.h"
#include "common/tokenizer/tokenizer.h"

namespace baton::tokenizer {

// The tokenizer of a model, for programs that need nothing else of it: `path` is a GGUF file or a
// folder with a tokenizer.json. Errors as ModelFile::open and vocabulary_from_gguf, or
// read_tokenizer_texts and vocabulary_from_tokenizer_json, and Tokenizer::create; each names the
// file or folder.
Result<Tokenizer> load_tokenizer(const std::string& path);

}  // namespace baton::tokenizer
