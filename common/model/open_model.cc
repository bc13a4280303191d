#include "common/model/open_model.h"

#include <utility>

#include "common/model_file/model_hash.h"

namespace baton::model {

Result<OpenModel> open_model(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(model_file::GgufFile file, model_file::GgufFile::open(path));
  BATON_ASSIGN_OR_RETURN(ModelDescription description, describe(file));
  BATON_ASSIGN_OR_RETURN(const U128 hash, model_file::model_hash(file));
  return OpenModel{std::move(file), std::move(description), hash};
}

}  // namespace baton::model
