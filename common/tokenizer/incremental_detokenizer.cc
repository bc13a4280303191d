#include "common/tokenizer/incremental_detokenizer.h"

namespace baton::tokenizer {

std::string IncrementalDetokenizer::feed(TokenId id, bool shown) {
  std::string text;
  if (shown || !options_.skip_special || !tokenizer_->is_special(id)) {
    assembler_.append(tokenizer_->token_bytes(id), text);
  }
  return text;
}

std::string IncrementalDetokenizer::finish() {
  std::string text;
  assembler_.finish(text);
  return text;
}

}  // namespace baton::tokenizer
