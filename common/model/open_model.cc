#include "common/model/open_model.h"

#include <utility>

namespace baton::model {

Result<OpenModel> open_model(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(model_file::ModelFile file, model_file::ModelFile::open(path));
  BATON_ASSIGN_OR_RETURN(ModelDescription description, describe(file));
  return OpenModel{std::move(file), std::move(description)};
}

}  // namespace baton::model
