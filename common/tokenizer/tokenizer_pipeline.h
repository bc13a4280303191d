#pragma once

// The steps of a tokenizer.json (normalizer, pre_tokenizer, decoder, post_processor) as what of
// them Baton does. A step, a key or a value that is not known is refused by name.

#include <boost/json/object.hpp>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/tokenizer/json_section.h"
#include "common/tokenizer/vocabulary.h"

namespace baton::tokenizer {

struct TokenizerPipeline {
  VocabularyKind kind = VocabularyKind::kByteLevel;
  std::string pre_tokenizer;  // byte-level: a name that pre_tokenizer_by_name knows
  bool is_nfc = false;        // byte-level
  SpaceRules spaces;          // SentencePiece
};

// `root` is the file.
Result<TokenizerPipeline> read_pipeline(const JsonSection& root);

// The one token that `root`'s post_processor puts before a text. What it puts behind is not read:
// Baton continues prompts, so it never closes them. unsupported: more than one token before.
Result<std::optional<std::string>> read_first_token(const JsonSection& root);

}  // namespace baton::tokenizer
