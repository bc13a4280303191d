#pragma once

// The part of the GGUF reader that touches unchecked bytes; used by gguf_parts.cc and
// model_file.cc.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/model_file/model_file.h"

namespace baton::model_file {

struct ParsedGguf {
  std::vector<MetadataEntry> metadata;  // sorted by key
  std::vector<TensorInfo> tensors;      // sorted by name
};

// Messages do not carry the file's name: the caller adds it.
Result<ParsedGguf> parse_gguf(std::span<const std::byte> bytes, const GgufLimits& limits);

// Bytes of one element as stored; 0 for strings and arrays.
uint64_t metadata_scalar_bytes(MetadataType type);

}  // namespace baton::model_file
