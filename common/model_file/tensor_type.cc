#include "common/model_file/tensor_type.h"

#include <algorithm>
#include <array>

#include "common/base/check.h"

namespace baton::model_file {
namespace {

constexpr std::array<TensorTypeInfo, 14> kTypes = {{
    {TensorType::kF32, "F32", 1, 4},
    {TensorType::kF16, "F16", 1, 2},
    {TensorType::kBF16, "BF16", 1, 2},
    {TensorType::kQ4_0, "Q4_0", 32, 18},
    {TensorType::kQ4_1, "Q4_1", 32, 20},
    {TensorType::kQ5_0, "Q5_0", 32, 22},
    {TensorType::kQ5_1, "Q5_1", 32, 24},
    {TensorType::kQ8_0, "Q8_0", 32, 34},
    {TensorType::kQ4_K, "Q4_K", 256, 144},
    {TensorType::kQ5_K, "Q5_K", 256, 176},
    {TensorType::kQ6_K, "Q6_K", 256, 210},
    {TensorType::kIQ4_NL, "IQ4_NL", 32, 18},
    {TensorType::kIQ4_XS, "IQ4_XS", 256, 136},
    {TensorType::kMXFP4, "MXFP4", 32, 17},
}};

// Index = number in the file; empty = removed from the format or never assigned.
constexpr std::array<std::string_view, 40> kNames = {
    "F32",     "F16",    "Q4_0",    "Q4_1",  "",       "",      "Q5_0",  "Q5_1",
    "Q8_0",    "Q8_1",   "Q2_K",    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K",  "Q8_K",
    "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS",
    "I8",      "I16",    "I32",     "I64",   "F64",    "IQ1_M", "BF16",  "",
    "",        "",       "TQ1_0",   "TQ2_0", "",       "",      "",      "MXFP4"};

}  // namespace

const TensorTypeInfo& tensor_type_info(TensorType type) {
  const auto* it = std::ranges::find(kTypes, type, &TensorTypeInfo::type);
  BATON_CHECK(it != kTypes.end(), "tensor type outside the enumeration");
  return *it;
}

std::span<const TensorTypeInfo> tensor_types() { return kTypes; }

std::string tensor_type_names() {
  std::string names;
  for (const TensorTypeInfo& info : kTypes) {
    names += (names.empty() ? "" : " ") + std::string(info.name);
  }
  return names;
}

std::optional<TensorType> tensor_type_from_number(uint32_t number) {
  const auto* it =
      std::ranges::find(kTypes, static_cast<TensorType>(number), &TensorTypeInfo::type);
  return it == kTypes.end() ? std::nullopt : std::optional(it->type);
}

std::string_view tensor_type_name(uint32_t number) {
  return number < kNames.size() && !kNames[number].empty() ? kNames[number] : "unknown";
}

}  // namespace baton::model_file
