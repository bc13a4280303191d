#pragma once

// The tensor types that Baton reads from a GGUF file, and the sizes of their blocks. What the bits
// of a block mean is common/model's business (dequantize.h): no arithmetic on weights here.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace baton::model_file {

// The numbers are those of the file (ggml_type).
enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kIQ4_XS = 23,
  kBF16 = 30,
  kMXFP4 = 39,
};

struct TensorTypeInfo {
  TensorType type;
  std::string_view name;
  uint32_t block_elements;  // elements of a row that are stored together; 1 for plain types
  uint32_t block_bytes;
};

const TensorTypeInfo& tensor_type_info(TensorType type);

std::span<const TensorTypeInfo> tensor_types();
std::string tensor_type_names();  // "F32 F16 ...", for messages

// Nothing for a number that Baton does not read.
std::optional<TensorType> tensor_type_from_number(uint32_t number);

// The name of any number that GGUF has ever assigned ("Q5_0" for 6), also those that Baton does not
// read; "unknown" otherwise. For messages.
std::string_view tensor_type_name(uint32_t number);

}  // namespace baton::model_file
