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

}  // namespace

Result<VocabularySpec> vocabulary_from_gguf(const ModelFile& file) {
  VocabularySpec spec;
  BATON_ASSIGN_OR_RETURN(spec.model, file.get_string("tokenizer.ggml.model"));
  BATON_ASSIGN_OR_RETURN(spec.pre_tokenizer, file.get_string("tokenizer.ggml.pre"));
  BATON_ASSIGN_OR_RETURN(spec.tokens, read_strings(file, "tokenizer.ggml.tokens"));
  BATON_ASSIGN_OR_RETURN(spec.merges, read_strings(file, "tokenizer.ggml.merges"));
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
  BATON_ASSIGN_OR_RETURN(const auto chat_template, file.find_string("tokenizer.chat_template"));
  spec.chat_template = chat_template.value_or("");
  return spec;
}

Result<Tokenizer> load_tokenizer(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const ModelFile file, ModelFile::open(path));
  BATON_ASSIGN_OR_RETURN(VocabularySpec spec, vocabulary_from_gguf(file));
  Result<Tokenizer> tokenizer = Tokenizer::create(std::move(spec));
  return tokenizer.ok() ? std::move(tokenizer) : tokenizer.status().with_context(file.name());
}

}  // namespace baton::tokenizer
