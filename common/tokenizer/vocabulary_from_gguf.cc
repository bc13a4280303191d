#include "common/tokenizer/vocabulary_from_gguf.h"

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::tokenizer {
namespace {

using model_file::ModelFile;

Result<std::vector<std::string>> read_strings(const ModelFile& file, std::string_view key) {
  BATON_ASSIGN_OR_RETURN(const auto views, file.get_strings(key));
  return std::vector<std::string>(views.begin(), views.end());
}

Result<std::optional<TokenId>> read_id(const ModelFile& file, std::string_view key) {
  BATON_ASSIGN_OR_RETURN(const auto value, file.find_u32(key));
  if (!value.has_value()) {
    return std::optional<TokenId>();
  }
  if (*value > static_cast<uint32_t>(std::numeric_limits<TokenId>::max())) {
    return invalid_argument(file.name() + ": " + std::string(key) + " is " +
                            std::to_string(*value) + ", which is no token id");
  }
  return std::optional<TokenId>(static_cast<TokenId>(*value));
}

Status read_byte_level(const ModelFile& file, VocabularySpec& spec) {
  BATON_ASSIGN_OR_RETURN(spec.pre_tokenizer, file.get_string("tokenizer.ggml.pre"));
  BATON_ASSIGN_OR_RETURN(spec.merges, read_strings(file, "tokenizer.ggml.merges"));
  return {};
}

// Merges that such a file may have are those of the scores and are not read.
Status read_sentence_piece(const ModelFile& file, VocabularySpec& spec) {
  BATON_ASSIGN_OR_RETURN(const auto pre, file.find_string("tokenizer.ggml.pre"));
  spec.pre_tokenizer = pre.value_or("");
  BATON_ASSIGN_OR_RETURN(spec.scores, file.get_f32s("tokenizer.ggml.scores"));
  if (spec.scores.size() != spec.tokens.size()) {
    return invalid_argument(file.name() + ": tokenizer.ggml.scores has " +
                            std::to_string(spec.scores.size()) + " values, but there are " +
                            std::to_string(spec.tokens.size()) + " tokens");
  }
  BATON_ASSIGN_OR_RETURN(const auto prefix, file.find_bool("tokenizer.ggml.add_space_prefix"));
  const bool has_prefix = prefix.value_or(true);
  spec.spaces.prefix = has_prefix ? SpaceRules::Prefix::kEverySegment : SpaceRules::Prefix::kNone;
  spec.spaces.strip_on_decode = has_prefix;
  BATON_ASSIGN_OR_RETURN(const auto remove_extra,
                         file.find_bool("tokenizer.ggml.remove_extra_whitespaces"));
  spec.spaces.remove_extra = remove_extra.value_or(false);
  return {};
}

Status read_templates(const ModelFile& file, VocabularySpec& spec) {
  BATON_ASSIGN_OR_RETURN(const auto chat_template, file.find_string("tokenizer.chat_template"));
  spec.chat_template = chat_template.value_or("");
  if (!file.has("tokenizer.chat_templates")) {
    return {};
  }
  BATON_ASSIGN_OR_RETURN(const auto names, read_strings(file, "tokenizer.chat_templates"));
  for (const std::string& name : names) {
    BATON_ASSIGN_OR_RETURN(const auto text, file.get_string("tokenizer.chat_template." + name));
    spec.named_chat_templates.emplace_back(name, text);
  }
  return {};
}

}  // namespace

Result<VocabularySpec> vocabulary_from_gguf(const ModelFile& file) {
  VocabularySpec spec;
  BATON_ASSIGN_OR_RETURN(spec.model, file.get_string("tokenizer.ggml.model"));
  if (spec.model != "gpt2" && spec.model != "llama") {
    return unsupported(file.name() + ": tokenizer.ggml.model is \"" + spec.model +
                       "\"; supported: gpt2 (byte-level BPE), llama (SentencePiece BPE)");
  }
  BATON_ASSIGN_OR_RETURN(spec.tokens, read_strings(file, "tokenizer.ggml.tokens"));
  if (file.has("tokenizer.ggml.precompiled_charsmap")) {
    return unsupported(file.name() +
                       ": tokenizer.ggml.precompiled_charsmap is set; supported: vocabularies "
                       "without a character map");
  }
  BATON_RETURN_IF_ERROR(spec.model == "llama" ? read_sentence_piece(file, spec)
                                              : read_byte_level(file, spec));
  if (file.has("tokenizer.ggml.token_type")) {
    BATON_ASSIGN_OR_RETURN(spec.token_types, file.get_i32s("tokenizer.ggml.token_type"));
  }
  BATON_ASSIGN_OR_RETURN(spec.bos_id, read_id(file, "tokenizer.ggml.bos_token_id"));
  BATON_ASSIGN_OR_RETURN(spec.eos_id, read_id(file, "tokenizer.ggml.eos_token_id"));
  BATON_ASSIGN_OR_RETURN(spec.eot_id, read_id(file, "tokenizer.ggml.eot_token_id"));
  BATON_ASSIGN_OR_RETURN(spec.eom_id, read_id(file, "tokenizer.ggml.eom_token_id"));
  BATON_ASSIGN_OR_RETURN(spec.unknown_id, read_id(file, "tokenizer.ggml.unknown_token_id"));
  BATON_ASSIGN_OR_RETURN(spec.padding_id, read_id(file, "tokenizer.ggml.padding_token_id"));
  BATON_ASSIGN_OR_RETURN(spec.add_bos, file.find_bool("tokenizer.ggml.add_bos_token"));
  BATON_RETURN_IF_ERROR(read_templates(file, spec));
  return spec;
}

}  // namespace baton::tokenizer
