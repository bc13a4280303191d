#pragma once

// A model file, opened and understood, before any weight is packed.

#include <string>

#include "common/base/status.h"
#include "common/model/description.h"
#include "common/model_file/model_file.h"

namespace baton::model {

struct OpenModel {
  model_file::ModelFile file;
  ModelDescription description;
};

// Errors as ModelFile::open and describe().
Result<OpenModel> open_model(const std::string& path);

}  // namespace baton::model
