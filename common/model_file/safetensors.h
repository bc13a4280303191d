#pragma once

// One safetensors file (https://huggingface.co/docs/safetensors): u64 length of a JSON header, the
// header, the data. Views point into the given bytes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/model_file/tensor_type.h"

namespace baton::model_file {

struct SafetensorsTensor {
  std::string name;
  TensorType type = TensorType::kF32;  // F32, F16 or BF16
  std::vector<uint64_t> shape;         // 1 to 4 extents, the last is contiguous
  std::span<const std::byte> data;
};

// In the order of their data. The data of all tensors must fill the file without holes or overlaps.
// Messages do not carry the file's name: the caller adds it. unsupported: another dtype;
// invalid_argument: everything else.
Result<std::vector<SafetensorsTensor>> parse_safetensors(std::span<const std::byte> bytes);

}  // namespace baton::model_file
