#pragma once

// The name that ModelFile had while it read GGUF alone.

#include "common/model_file/model_file.h"

namespace baton::model_file {

using GgufFile = ModelFile;

}  // namespace baton::model_file
