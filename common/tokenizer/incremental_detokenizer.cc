#include "common/tokenizer/incremental_detokenizer.h"

namespace baton::tokenizer {

std::string IncrementalDetokenizer::feed(TokenId id, bool shown) {
  std::string text;
  if (shown || !options_.skip_special || !tokenizer_->is_special(id)) {
    std::string_view bytes = tokenizer_->token_bytes(id);
    if (at_begin_ && !bytes.empty()) {
      at_begin_ = false;
      if (tokenizer_->strips_first_space() && bytes[0] == ' ') {
        bytes.remove_prefix(1);
      }
    }
    assembler_.append(bytes, text);
  }
  return text;
}

std::string IncrementalDetokenizer::finish() {
  std::string text;
  assembler_.finish(text);
  at_begin_ = !options_.continues;
  return text;
}

}  // namespace baton::tokenizer
