#pragma once

// A model file, opened and understood, before any weight is packed.

#include <string>

#include "common/base/status.h"
#include "common/model/description.h"
#include "common/model_file/gguf.h"

namespace baton::model {

struct OpenModel {
  model_file::GgufFile file;
  ModelDescription description;
};

// Errors as GgufFile::open and describe().
Result<OpenModel> open_model(const std::string& path);

}  // namespace baton::model
