#include "common/tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/tokenizer/nfc.h"
#include "common/tokenizer/space_marks.h"
#include "common/tokenizer/unicode/unicode_tables.h"
#include "common/tokenizer/utf8.h"

namespace baton::tokenizer {
namespace {

using After = EncodeOptions::After;

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
  for (const TokenId id : spec.more_end_ids) {
    BATON_RETURN_IF_ERROR(check_id(id, "eos", tokens));
  }
  return check_id(spec.padding_id, "padding", tokens);
}

Result<VocabularyKind> kind_of(const VocabularySpec& spec) {
  if (spec.model == "gpt2") {
    return VocabularyKind::kByteLevel;
  }
  if (spec.model == "llama") {
    if (spec.pre_tokenizer.empty() || spec.pre_tokenizer == "default") {
      return VocabularyKind::kSentencePiece;
    }
    return unsupported("tokenizer: pre-tokenizer \"" + spec.pre_tokenizer +
                       "\" is not supported with model llama; supported: default");
  }
  return unsupported("tokenizer: model \"" + spec.model +
                     "\" is not supported; supported: gpt2 (byte-level BPE), llama "
                     "(SentencePiece BPE)");
}

// Where white space that ends at `end` begins.
size_t space_begin(std::string_view text, size_t end) {
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) {
      --begin;
    }
    const CodePoint c = decode_code_point(text, begin);
    if (c.length != end - begin || char_class(c.value) != CharClass::kSpace) {
      break;
    }
    end = begin;
  }
  return end;
}

size_t space_end(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const CodePoint c = decode_code_point(text, begin);
    if (char_class(c.value) != CharClass::kSpace) {
      break;
    }
    begin += c.length;
  }
  return begin;
}

}  // namespace

Result<Tokenizer> Tokenizer::make(VocabularySpec& spec) {
  BATON_ASSIGN_OR_RETURN(const VocabularyKind kind, kind_of(spec));
  const auto pre_tokenizer = pre_tokenizer_by_name(spec.pre_tokenizer);
  if (kind == VocabularyKind::kByteLevel && !pre_tokenizer.has_value()) {
    return unsupported("tokenizer: pre-tokenizer \"" + spec.pre_tokenizer +
                       "\" is not supported; supported: " + supported_pre_tokenizers());
  }
  BATON_ASSIGN_OR_RETURN(auto vocabulary,
                         Vocabulary::create(kind, std::move(spec.tokens), spec.token_types));
  BATON_RETURN_IF_ERROR(check_ids(spec, vocabulary));
  const bool has_scores = kind == VocabularyKind::kSentencePiece && !spec.scores.empty();
  BATON_ASSIGN_OR_RETURN(auto merger, has_scores ? BpeMerger::from_scores(vocabulary, spec.scores)
                                                 : BpeMerger::create(vocabulary, spec.merges));
  Tokenizer tokenizer(std::move(vocabulary), std::move(merger));
  tokenizer.pre_tokenizer_ = pre_tokenizer.value_or(PreTokenizer::kGpt2);
  return tokenizer;
}

Result<Tokenizer> Tokenizer::create(VocabularySpec spec) {
  BATON_ASSIGN_OR_RETURN(Tokenizer tokenizer, make(spec));
  const bool is_byte_level = tokenizer.kind() == VocabularyKind::kByteLevel;
  const PreTokenizer family = tokenizer.pre_tokenizer_;
  const bool is_llama3 = is_byte_level && family == PreTokenizer::kLlamaBpe;
  const bool has_ignored_merges = is_llama3 || (is_byte_level && family == PreTokenizer::kTekken);
  tokenizer.is_nfc_ = is_byte_level && spec.is_nfc.value_or(family == PreTokenizer::kQwen2);
  tokenizer.spaces_ = spec.spaces;
  tokenizer.spaces_.strip_on_decode = !is_byte_level && spec.spaces.strip_on_decode;
  tokenizer.bos_id_ = spec.bos_id;
  tokenizer.eos_id_ = spec.eos_id;
  tokenizer.padding_id_ = spec.padding_id;
  tokenizer.add_bos_ =
      spec.bos_id.has_value() && spec.add_bos.value_or(is_llama3 || !is_byte_level);
  BATON_RETURN_IF_ERROR(tokenizer.read_match_rules(spec));
  tokenizer.find_special_tokens();
  tokenizer.find_end_tokens(spec);
  tokenizer.mark_whole_words(spec.ignore_merges.value_or(has_ignored_merges));
  tokenizer.chat_template_ = std::move(spec.chat_template);
  for (auto& [name, source] : spec.named_chat_templates) {
    if (name == "tool_use") {
      tokenizer.tool_template_ = std::move(source);
    }
  }
  return tokenizer;
}

Status Tokenizer::read_match_rules(const VocabularySpec& spec) {
  for (const auto& [id, rule] : spec.match_rules) {
    BATON_RETURN_IF_ERROR(check_id(id, "added", vocabulary_));
    match_rules_[id] = rule;
  }
  return {};
}

MatchRule Tokenizer::rule_of(TokenId id) const {
  const auto found = match_rules_.find(id);
  return found == match_rules_.end() ? MatchRule() : found->second;
}

void Tokenizer::find_special_tokens() {
  using Texts = std::vector<std::pair<std::string, TokenId>>;
  Texts always[2];  // [normalized]
  Texts all[2];
  for (size_t i = 0; i < vocabulary_.size(); ++i) {
    const TokenId id = static_cast<TokenId>(i);
    const bool is_user_defined = vocabulary_.type(id) == TokenType::kUserDefined;
    if (!is_user_defined && !is_special(id)) {
      continue;
    }
    const bool is_normalized = rule_of(id).normalized;
    const std::string& text = vocabulary_.text(id);
    all[is_normalized].emplace_back(is_normalized ? normalized(text, After::kSpecialToken) : text,
                                    id);
    if (is_user_defined) {
      always[is_normalized].push_back(all[is_normalized].back());
    }
  }
  always_ = {SpecialTokenMatcher(always[0]), SpecialTokenMatcher(always[1])};
  with_control_ = {SpecialTokenMatcher(all[0]), SpecialTokenMatcher(all[1])};
}

void Tokenizer::find_end_tokens(const VocabularySpec& spec) {
  for (const auto& id : {spec.eos_id, spec.eot_id, spec.eom_id}) {
    if (id.has_value()) {
      end_ids_.push_back(*id);
    }
  }
  end_ids_.insert(end_ids_.end(), spec.more_end_ids.begin(), spec.more_end_ids.end());
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

template <typename OnText, typename OnToken>
void Tokenizer::cut_at_specials(const SpecialTokenMatcher& specials, std::string_view text,
                                const OnText& on_text, const OnToken& on_token) const {
  size_t begin = 0;   // of what is not given away yet
  size_t search = 0;  // tokens do not overlap, but white space may belong to two of them
  while (const auto match = specials.find(text, search)) {
    const MatchRule rule = rule_of(match->id);
    // Each white space is looked at once or twice, also where it is a token itself.
    const size_t token_begin = rule.left_strip && match->begin > begin
                                   ? begin + space_begin(text.substr(begin), match->begin - begin)
                                   : match->begin;
    if (token_begin > begin) {
      on_text(begin, token_begin);
    }
    on_token(match->id);
    begin = std::max(begin, match->end);
    begin = rule.right_strip ? space_end(text, begin) : begin;
    search = match->end;
  }
  if (begin < text.size()) {
    on_text(begin, text.size());
  }
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 3 + 8);
  BpeMerger::Scratch scratch;
  const Matchers& specials = options.parse_special ? with_control_ : always_;
  cut_at_specials(
      specials.raw, text,
      [&](size_t begin, size_t end) {
        encode_segment(text.substr(begin, end - begin), specials.normalized,
                       begin == 0 ? options.after : After::kSpecialToken, scratch, ids);
      },
      [&](TokenId id) { ids.push_back(id); });
  if (options.add_bos && add_bos_ && (ids.empty() || ids.front() != *bos_id_)) {
    ids.insert(ids.begin(), *bos_id_);
  }
  return ids;
}

// The prefix of `spaces_` that belongs to each part between normalised tokens.
bool Tokenizer::has_late_prefix() const {
  return spaces_.prefix == SpaceRules::Prefix::kUnlessSpace ||
         spaces_.prefix == SpaceRules::Prefix::kFirstUnlessSpace;
}

std::string Tokenizer::normalized(std::string_view text, After after) const {
  if (kind() == VocabularyKind::kByteLevel) {
    return is_nfc_ ? to_nfc(text).value_or(std::string(text)) : std::string(text);
  }
  SpaceRules rules = spaces_;
  if (has_late_prefix()) {
    rules.prefix = SpaceRules::Prefix::kNone;
  }
  return with_space_rules(text, rules, after);
}

void Tokenizer::encode_segment(std::string_view text, const SpecialTokenMatcher& specials,
                               After after, BpeMerger::Scratch& scratch,
                               std::vector<TokenId>& out) const {
  std::string changed;
  if (kind() == VocabularyKind::kSentencePiece || is_nfc_) {
    changed = normalized(text, after);
    text = changed;
  }
  cut_at_specials(
      specials, text,
      [&](size_t begin, size_t end) {
        encode_normalized(text.substr(begin, end - begin),
                          begin == 0 ? after : After::kSpecialToken, scratch, out);
      },
      [&](TokenId id) { out.push_back(id); });
}

size_t Tokenizer::piece_end(std::string_view text, size_t begin) const {
  if (kind() == VocabularyKind::kByteLevel) {
    return next_piece_end(pre_tokenizer_, text, begin);
  }
  return merger_.independent_end(text, begin, spaces_.split_words);
}

void Tokenizer::encode_normalized(std::string_view text, After after, BpeMerger::Scratch& scratch,
                                  std::vector<TokenId>& out) const {
  std::string prefixed;
  if (kind() == VocabularyKind::kSentencePiece && has_late_prefix()) {
    prefixed = with_space_rules(text, spaces_, after);
    text = prefixed;
  }
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = piece_end(text, begin);
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
  if (spaces_.strip_on_decode && !options.continues && text.starts_with(' ')) {
    text.erase(0, 1);
  }
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
