#pragma once

// How a text is read.

#include <cstdint>

namespace baton::tokenizer {

struct EncodeOptions {
  // Put BOS first when the vocabulary asks for it (adds_bos()) and the ids do not begin with it
  // already. False for text that a chat template made: the template prints its own BOS.
  bool add_bos = false;
  // Read the text of control tokens ("<|im_end|>") as the token. False for text that a user wrote
  // inside a chat message: it then stays text. User-defined tokens ("<think>") are read always.
  bool parse_special = false;
  // What is before the text: SentencePiece vocabularies put a space before a text, some of them
  // before what follows a special token too, none before what goes on from other text.
  enum class After : uint8_t { kNothing, kSpecialToken, kText };
  After after = After::kNothing;
};

}  // namespace baton::tokenizer
