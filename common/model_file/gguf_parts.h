#pragma once

// One GGUF file or all parts of a split one ("NAME-00001-of-00003.gguf"; llama-gguf-split). The
// first part has the metadata, every part its own tensors and the keys split.no (from 0),
// split.count and split.tensors.count.

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/model_file/gguf_parser.h"
#include "common/model_file/model_file.h"

namespace baton::model_file {

struct GgufPart {
  std::string name;  // its path
  ParsedGguf parsed;
};

// Opens the file, and where it is a part, all other parts, which lie beside it under the names that
// belong to them. Errors as ModelFile::open; a missing part is named.
Result<ModelFileContents> open_gguf(const std::string& path, const GgufLimits& limits);

// All parts in order as one; a file that is not split is one part. invalid_argument: they are not
// all parts of one model, and which part says so. The result has no files.
Result<ModelFileContents> join_gguf_parts(std::vector<GgufPart> parts);

}  // namespace baton::model_file
