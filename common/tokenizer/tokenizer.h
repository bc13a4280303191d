#pragma once

// Text to token ids and back: byte-level BPE and SentencePiece's BPE.
//
// Equal, id for id, to the `tokenizers` package (0.23) on the same vocabulary; the oracle test and
// its data lie in tests/data/tokenizer. Steps of encode: special tokens are cut out of the text,
// the rest is normalised (nfc.h, space_marks.h) and split, by the pre-tokenizer of the model's
// family (pre_tokenizer.h) or, with SentencePiece, where no merge can cross; each piece is merged
// (bpe_merger.h). Time is O(n log n) in the text's bytes whatever the text is.
//
// Threads: immutable after create; every method is const and safe from any number of threads.
// Blocking: none. Errors: only create fails; encode and decode take any bytes and any ids.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/tokenizer/bpe_merger.h"
#include "common/tokenizer/encode_options.h"
#include "common/tokenizer/pre_tokenizer.h"
#include "common/tokenizer/special_tokens.h"
#include "common/tokenizer/vocabulary.h"

namespace baton::tokenizer {

struct DecodeOptions {
  bool skip_special = true;  // leave out tokens for which is_special() holds
  // The ids go on from others, such as an answer from its prompt: the space that a SentencePiece
  // vocabulary puts before a text is taken away only where ids begin one.
  bool continues = false;
};

class Tokenizer final {
 public:
  // unsupported: a model other than "gpt2" and "llama" or an unknown pre-tokenizer, with the names
  // that are supported; invalid_argument: contradictions inside `spec` (an id outside the
  // vocabulary, a merge of tokens that do not exist, ...), with the value and its place.
  static Result<Tokenizer> create(VocabularySpec spec);

  // Bytes that are not UTF-8 are kept: they become byte tokens. A byte without a token of its own
  // (SmolLM2 lacks some control characters) is dropped, with qwen2 text is brought to NFC (nfc.h)
  // and SentencePiece takes U+2581 for a space, all as the reference implementation does; else
  // decode gives the text back.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // Always valid UTF-8: each maximal invalid part of the tokens' joined bytes becomes one U+FFFD.
  // Ids outside the vocabulary are left out; callers that must refuse them ask contains().
  std::string decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const;

  VocabularyKind kind() const { return vocabulary_.kind(); }
  size_t vocab_size() const { return vocabulary_.size(); }
  bool contains(TokenId id) const { return vocabulary_.contains(id); }

  // What the token adds to the output; may be part of a UTF-8 sequence. Empty for unused tokens
  // and ids outside the vocabulary.
  std::string_view token_bytes(TokenId id) const;
  // As the model file writes it (byte-level alphabet, U+2581 for a space). Empty for ids outside
  // the vocabulary.
  std::string_view token_text(TokenId id) const;
  // The token that the model file writes so.
  std::optional<TokenId> find_token(std::string_view text) const;

  // Type control: structure such as <|im_start|>. False for ids outside the vocabulary.
  bool is_control(TokenId id) const;
  // Control or unknown: hidden by skip_special, found in text only with parse_special.
  bool is_special(TokenId id) const;

  std::optional<TokenId> bos_id() const { return bos_id_; }
  std::optional<TokenId> eos_id() const { return eos_id_; }
  std::optional<TokenId> padding_id() const { return padding_id_; }
  // True when raw prompts of this model begin with BOS.
  bool adds_bos() const { return add_bos_; }

  // A text's first space is not shown: see DecodeOptions::continues.
  bool strips_first_space() const { return spaces_.strip_on_decode; }

  // Every token that ends a generation, ascending: EOS, EOT, EOM and more of the file, control or
  // user-defined tokens whose text is a known end marker ("<|endoftext|>", "<|im_end|>",
  // "<|eot_id|>", ...: kEndTexts in tokenizer.cc), because files name only one of several.
  std::span<const TokenId> end_ids() const { return end_ids_; }
  bool is_end(TokenId id) const;

  // Jinja source as in the model file; empty when it has none.
  const std::string& chat_template() const { return chat_template_; }
  // The template named tool_use, for conversations with tools; empty when there is none.
  const std::string& tool_template() const { return tool_template_; }

 private:
  // Added tokens, by what they are looked for in.
  struct Matchers {
    SpecialTokenMatcher raw;         // the text as it is
    SpecialTokenMatcher normalized;  // what lies between those, normalised
  };

  Tokenizer(Vocabulary vocabulary, BpeMerger merger)
      : vocabulary_(std::move(vocabulary)), merger_(std::move(merger)) {}
  static Result<Tokenizer> make(VocabularySpec& spec);
  Status read_match_rules(const VocabularySpec& spec);
  void find_special_tokens();
  void find_end_tokens(const VocabularySpec& spec);
  void mark_whole_words(bool ignore_merges);
  bool has_late_prefix() const;
  MatchRule rule_of(TokenId id) const;
  std::string normalized(std::string_view text, EncodeOptions::After after) const;
  void encode_segment(std::string_view text, const SpecialTokenMatcher& specials,
                      EncodeOptions::After after, BpeMerger::Scratch& scratch,
                      std::vector<TokenId>& out) const;
  void encode_normalized(std::string_view text, EncodeOptions::After after,
                         BpeMerger::Scratch& scratch, std::vector<TokenId>& out) const;
  size_t piece_end(std::string_view text, size_t begin) const;
  // Calls on_text(begin, end) and on_token(id) from left to right.
  template <typename OnText, typename OnToken>
  void cut_at_specials(const SpecialTokenMatcher& specials, std::string_view text,
                       const OnText& on_text, const OnToken& on_token) const;

  Vocabulary vocabulary_;
  BpeMerger merger_;
  PreTokenizer pre_tokenizer_ = PreTokenizer::kGpt2;  // byte-level only
  SpaceRules spaces_;                                 // SentencePiece only
  // For each token whether a piece with exactly its bytes becomes that one token: most words of a
  // text then cost one lookup.
  std::vector<bool> is_whole_word_;
  Matchers always_;                                     // user-defined tokens
  Matchers with_control_;                               // user-defined, control and unknown tokens
  std::unordered_map<TokenId, MatchRule> match_rules_;  // where they are not the default
  bool is_nfc_ = false;                                 // ordinary text is brought to NFC first
  std::optional<TokenId> bos_id_;
  std::optional<TokenId> eos_id_;
  std::optional<TokenId> padding_id_;
  bool add_bos_ = false;
  std::vector<TokenId> end_ids_;
  std::string chat_template_;
  std::string tool_template_;
};

}  // namespace baton::tokenizer
