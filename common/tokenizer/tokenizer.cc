#include "common/tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/tokenizer/nfc.h"
#include "common/tokenizer/utf8.h"

namespace baton::tokenizer {
namespace {

// Texts of tokens that end a turn or a document, in any of the families. Model files often name
// only one of two ("<|im_end|>" but not "<|endoftext|>"); the list follows llama.cpp's.
constexpr std::array<std::string_view, 12> kEndTexts = {
    "<|endoftext|>", "<|im_end|>", "<|eot_id|>",    "<|eom_id|>", "<|end_of_text|>", "<|end|>",
    "<|return|>",    "<|call|>",   "<end_of_turn>", "<EOT>",      "_<EOT>",          "[EOT]",
};

Status check_id(const std::optional<TokenId>& id, std::string_view name, const Vocabulary& tokens) {
  if (!id.has_value() || tokens.contains(*id)) {
    return {};
  }
  return invalid_argument("tokenizer: " + std::string(name) + "_token_id is " +
                          std::to_string(*id) + ", but the vocabulary has " +
                          std::to_string(tokens.size()) + " tokens");
}

Status check_ids(const VocabularySpec& spec, const Vocabulary& tokens) {
  BATON_RETURN_IF_ERROR(check_id(spec.bos_id, "bos", tokens));
  BATON_RETURN_IF_ERROR(check_id(spec.eos_id, "eos", tokens));
  BATON_RETURN_IF_ERROR(check_id(spec.eot_id, "eot", tokens));
  BATON_RETURN_IF_ERROR(check_id(spec.eom_id, "eom", tokens));
  BATON_RETURN_IF_ERROR(check_id(spec.unknown_id, "unknown", tokens));
  return check_id(spec.padding_id, "padding", tokens);
}

}  // namespace

Result<Tokenizer> Tokenizer::create(VocabularySpec spec) {
  if (spec.model != "gpt2") {
    return unsupported("tokenizer: model \"" + spec.model +
                       "\" is not supported; supported: gpt2 (byte-level BPE)");
  }
  const auto pre_tokenizer = pre_tokenizer_by_name(spec.pre_tokenizer);
  if (!pre_tokenizer.has_value()) {
    return unsupported("tokenizer: pre-tokenizer \"" + spec.pre_tokenizer +
                       "\" is not supported; supported: " + supported_pre_tokenizers());
  }
  BATON_ASSIGN_OR_RETURN(auto vocabulary,
                         Vocabulary::create(std::move(spec.tokens), spec.token_types));
  BATON_RETURN_IF_ERROR(check_ids(spec, vocabulary));
  BATON_ASSIGN_OR_RETURN(auto merger, BpeMerger::create(vocabulary, spec.merges));

  Tokenizer tokenizer(std::move(vocabulary), std::move(merger), *pre_tokenizer);
  const bool is_llama = *pre_tokenizer == PreTokenizer::kLlamaBpe;
  tokenizer.is_nfc_ = *pre_tokenizer == PreTokenizer::kQwen2;
  tokenizer.bos_id_ = spec.bos_id;
  tokenizer.eos_id_ = spec.eos_id;
  tokenizer.padding_id_ = spec.padding_id;
  tokenizer.add_bos_ = spec.bos_id.has_value() && spec.add_bos.value_or(is_llama);
  tokenizer.find_special_tokens();
  tokenizer.find_end_tokens(spec);
  tokenizer.mark_whole_words(spec.ignore_merges.value_or(is_llama));
  tokenizer.chat_template_ = std::move(spec.chat_template);
  return tokenizer;
}

void Tokenizer::find_special_tokens() {
  std::vector<std::pair<std::string, TokenId>> user_defined;
  std::vector<std::pair<std::string, TokenId>> all;
  for (size_t i = 0; i < vocabulary_.size(); ++i) {
    const TokenId id = static_cast<TokenId>(i);
    const bool is_user_defined = vocabulary_.type(id) == TokenType::kUserDefined;
    if (is_user_defined) {
      user_defined.emplace_back(vocabulary_.text(id), id);
    }
    if (is_user_defined || is_special(id)) {
      all.emplace_back(vocabulary_.text(id), id);
    }
  }
  always_ = SpecialTokenMatcher(user_defined);
  with_control_ = SpecialTokenMatcher(all);
}

void Tokenizer::find_end_tokens(const VocabularySpec& spec) {
  for (const auto& id : {spec.eos_id, spec.eot_id, spec.eom_id}) {
    if (id.has_value()) {
      end_ids_.push_back(*id);
    }
  }
  for (const std::string_view text : kEndTexts) {
    const TokenId id = vocabulary_.find_text(text);
    if (id != kNoToken && (vocabulary_.type(id) == TokenType::kControl ||
                           vocabulary_.type(id) == TokenType::kUserDefined)) {
      end_ids_.push_back(id);
    }
  }
  std::sort(end_ids_.begin(), end_ids_.end());
  end_ids_.erase(std::unique(end_ids_.begin(), end_ids_.end()), end_ids_.end());
}

void Tokenizer::mark_whole_words(bool ignore_merges) {
  is_whole_word_.assign(vocabulary_.size(), false);
  BpeMerger::Scratch scratch;
  std::vector<TokenId> ids;
  for (size_t i = 0; i < vocabulary_.size(); ++i) {
    const TokenId id = static_cast<TokenId>(i);
    if (vocabulary_.type(id) != TokenType::kNormal) {
      continue;
    }
    ids.clear();
    if (!ignore_merges) {
      merger_.merge(vocabulary_.bytes(id), scratch, ids);
    }
    is_whole_word_[i] = ignore_merges || (ids.size() == 1 && ids[0] == id);
  }
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 3 + 8);
  BpeMerger::Scratch scratch;
  const SpecialTokenMatcher& specials = options.parse_special ? with_control_ : always_;
  size_t begin = 0;
  while (begin < text.size()) {
    const auto match = specials.find(text, begin);
    const size_t end = match ? match->begin : text.size();
    encode_ordinary(text.substr(begin, end - begin), scratch, ids);
    if (match) {
      ids.push_back(match->id);
    }
    begin = match ? match->end : end;
  }
  if (options.add_bos && add_bos_ && (ids.empty() || ids.front() != *bos_id_)) {
    ids.insert(ids.begin(), *bos_id_);
  }
  return ids;
}

void Tokenizer::encode_ordinary(std::string_view text, BpeMerger::Scratch& scratch,
                                std::vector<TokenId>& out) const {
  std::optional<std::string> normalized;
  if (is_nfc_) {
    normalized = to_nfc(text);
    text = normalized ? std::string_view(*normalized) : text;
  }
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = next_piece_end(pre_tokenizer_, text, begin);
    const std::string_view piece = text.substr(begin, end - begin);
    const TokenId whole = vocabulary_.find_bytes(piece);
    if (whole != kNoToken && is_whole_word_[static_cast<size_t>(whole)]) {
      out.push_back(whole);
    } else {
      merger_.merge(piece, scratch, out);
    }
    begin = end;
  }
}

std::string Tokenizer::decode(std::span<const TokenId> ids, const DecodeOptions& options) const {
  std::string text;
  Utf8Assembler assembler;
  for (const TokenId id : ids) {
    if (!(options.skip_special && is_special(id))) {
      assembler.append(token_bytes(id), text);
    }
  }
  assembler.finish(text);
  return text;
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  return contains(id) ? vocabulary_.bytes(id) : std::string_view();
}

std::string_view Tokenizer::token_text(TokenId id) const {
  return contains(id) ? std::string_view(vocabulary_.text(id)) : std::string_view();
}

std::optional<TokenId> Tokenizer::find_token(std::string_view text) const {
  const TokenId id = vocabulary_.find_text(text);
  return id == kNoToken ? std::nullopt : std::optional(id);
}

bool Tokenizer::is_control(TokenId id) const {
  return contains(id) && vocabulary_.type(id) == TokenType::kControl;
}

bool Tokenizer::is_special(TokenId id) const {
  return contains(id) && (vocabulary_.type(id) == TokenType::kControl ||
                          vocabulary_.type(id) == TokenType::kUnknown);
}

bool Tokenizer::is_end(TokenId id) const {
  return std::binary_search(end_ids_.begin(), end_ids_.end(), id);
}

}  // namespace baton::tokenizer
