#pragma once

// The identity of a model: two workers may exchange KV only if their hashes are equal.
//
// XXH3-128 over, in this order: general.architecture and every key under "<architecture>." (sorted;
// key, type, value bytes), the tensor table (sorted by name; name, type, dims) and each tensor's
// bytes in that order. The order of entries in the file, its alignment, its tokeniser and its
// descriptive keys do not enter. Reads the whole file once (memory speed when it is cached).

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/model_file/model_file.h"

namespace baton::model_file {

Result<U128> model_hash(const ModelFile& file);

}  // namespace baton::model_file
