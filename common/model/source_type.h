#pragma once

// A tensor type of a model file as the kernels call it: the kernels know no file formats.

#include "common/kernels/matmul/matmul.h"
#include "common/model_file/tensor_type.h"

namespace baton::model {

constexpr kernels::SourceType source_type(model_file::TensorType type) {
  switch (type) {
    case model_file::TensorType::kF32:
      return kernels::SourceType::kF32;
    case model_file::TensorType::kF16:
      return kernels::SourceType::kF16;
    case model_file::TensorType::kBF16:
      return kernels::SourceType::kBf16;
    case model_file::TensorType::kQ4_0:
      return kernels::SourceType::kQ4_0;
    case model_file::TensorType::kQ4_1:
      return kernels::SourceType::kQ4_1;
    case model_file::TensorType::kQ5_0:
      return kernels::SourceType::kQ5_0;
    case model_file::TensorType::kQ5_1:
      return kernels::SourceType::kQ5_1;
    case model_file::TensorType::kQ8_0:
      return kernels::SourceType::kQ8_0;
    case model_file::TensorType::kQ4_K:
      return kernels::SourceType::kQ4_K;
    case model_file::TensorType::kQ5_K:
      return kernels::SourceType::kQ5_K;
    case model_file::TensorType::kQ6_K:
      return kernels::SourceType::kQ6_K;
    case model_file::TensorType::kIQ4_NL:
      return kernels::SourceType::kIq4Nl;
    case model_file::TensorType::kIQ4_XS:
      return kernels::SourceType::kIq4Xs;
    case model_file::TensorType::kMXFP4:
      return kernels::SourceType::kMxfp4;
  }
  return kernels::SourceType::kF32;
}

// Types that vectors (norms, biases) may have.
constexpr bool is_plain(model_file::TensorType type) {
  return type == model_file::TensorType::kF32 || type == model_file::TensorType::kF16 ||
         type == model_file::TensorType::kBF16;
}

}  // namespace baton::model
