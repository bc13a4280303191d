#pragma once

// A model file, opened and understood, before any weight is packed.

#include <string>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/model/description.h"
#include "common/model_file/gguf.h"

namespace baton::model {

struct OpenModel {
  model_file::GgufFile file;
  ModelDescription description;
  U128 hash;  // model_file::model_hash
};

// Blocking: reads the whole file once for the hash. Errors as GgufFile::open and describe().
Result<OpenModel> open_model(const std::string& path);

}  // namespace baton::model
