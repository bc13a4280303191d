#pragma once

// Turns a stream of token ids into text that can be sent at once: only whole UTF-8 characters
// leave it, and the pieces joined equal Tokenizer::decode of all ids. Its state is a function of
// the ids fed, so feeding them again to another one gives the same continuation.
//
// At most 3 bytes are held back, the beginning of a character that later tokens may complete. Bytes
// that cannot become a character are replaced by U+FFFD at once, so garbage never stalls a stream;
// a character cut off by the end becomes one U+FFFD.
//
// Threads: one owner. Lifetime: the tokenizer outlives it. O(bytes of the token) a call.

#include <string>

#include "common/base/ids.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/utf8.h"

namespace baton::tokenizer {

class IncrementalDetokenizer final {
 public:
  explicit IncrementalDetokenizer(const Tokenizer& tokenizer, const DecodeOptions& options = {})
      : tokenizer_(&tokenizer), options_(options), at_begin_(!options.continues) {}

  // The text that is complete now; often empty. Ids outside the vocabulary add nothing. `shown`: a
  // special token is not left out, whatever the options say.
  std::string feed(TokenId id, bool shown = false);
  // The end of the stream: U+FFFD if a character was cut off, else nothing. Ready for a new stream
  // afterwards.
  std::string finish();

  size_t held_bytes() const { return assembler_.held_bytes(); }

 private:
  const Tokenizer* tokenizer_;
  DecodeOptions options_;
  Utf8Assembler assembler_;
  bool at_begin_;  // nothing of a text that begins here has come yet
};

}  // namespace baton::tokenizer
