#include "common/tokenizer/load_tokenizer.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "common/model_file/model_file.h"
#include "common/tokenizer/vocabulary_from_gguf.h"
#include "common/tokenizer/vocabulary_from_tokenizer_json.h"

namespace baton::tokenizer {
namespace {

Result<VocabularySpec> spec_of_folder(const std::string& folder) {
  BATON_ASSIGN_OR_RETURN(const TokenizerTexts texts, read_tokenizer_texts(folder));
  Result<VocabularySpec> spec = vocabulary_from_tokenizer_json(texts);
  return spec.ok() ? std::move(spec) : spec.status().with_context(folder);
}

Result<VocabularySpec> spec_of_file(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const auto file, model_file::ModelFile::open(path));
  return vocabulary_from_gguf(file);
}

}  // namespace

Result<Tokenizer> load_tokenizer(const std::string& path) {
  std::error_code error;
  BATON_ASSIGN_OR_RETURN(VocabularySpec spec, std::filesystem::is_directory(path, error)
                                                  ? spec_of_folder(path)
                                                  : spec_of_file(path));
  Result<Tokenizer> tokenizer = Tokenizer::create(std::move(spec));
  return tokenizer.ok() ? std::move(tokenizer) : tokenizer.status().with_context(path);
}

}  // namespace baton::tokenizer
