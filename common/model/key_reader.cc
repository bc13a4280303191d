#include "common/model/key_reader.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace baton::model {
namespace {

using model_file::MetadataEntry;
using model_file::MetadataType;
using model_file::ModelFile;

template <typename T>
T load(const MetadataEntry& entry) {
  T value;
  std::memcpy(&value, entry.value.data(), sizeof(T));
  return value;
}

}  // namespace

std::string number_text(double value) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.9g", value);
  return buffer.data();
}

std::string value_text(const ModelFile& file, const MetadataEntry& entry) {
  switch (entry.type) {
    case MetadataType::kString:
      return std::string(file.get_string(entry.key).value());
    case MetadataType::kBool:
      return file.get_bool(entry.key).value() ? "true" : "false";
    case MetadataType::kF32:
      return number_text(load<float>(entry));
    case MetadataType::kF64:
      return number_text(load<double>(entry));
    case MetadataType::kI8:
      return std::to_string(load<int8_t>(entry));
    case MetadataType::kI16:
      return std::to_string(load<int16_t>(entry));
    case MetadataType::kI32:
      return std::to_string(load<int32_t>(entry));
    case MetadataType::kI64:
      return std::to_string(load<int64_t>(entry));
    case MetadataType::kU8:
    case MetadataType::kU16:
    case MetadataType::kU32:
    case MetadataType::kU64:
      return std::to_string(file.get_u64(entry.key).value());
    case MetadataType::kArray:
      return "an array of " + std::to_string(entry.count) + " " +
             std::string(metadata_type_name(entry.element_type));
  }
  return {};
}

std::string KeyReader::shown(const MetadataEntry& entry) const {
  return model_file::quoted(entry.key) + " = " + model_file::quoted(value_text(file_, entry));
}

Status KeyReader::check_limit(const std::string& what, uint32_t value, uint32_t limit) const {
  if (value < 1 || value > limit) {
    return wrong(what + " is " + std::to_string(value) + "; it must be 1 to " +
                 std::to_string(limit));
  }
  return {};
}

Result<int> KeyReader::get_int(std::string_view suffix, uint32_t limit) const {
  BATON_ASSIGN_OR_RETURN(const uint32_t value, file_.get_u32(key(suffix)));
  BATON_RETURN_IF_ERROR(check_limit(model_file::quoted(key(suffix)), value, limit));
  return static_cast<int>(value);
}

Result<int> KeyReader::find_int(std::string_view suffix, uint32_t limit, int otherwise) const {
  return has(suffix) ? get_int(suffix, limit) : Result<int>(otherwise);
}

Result<float> KeyReader::find_float(std::string_view suffix, Bounds bounds, float otherwise) const {
  BATON_ASSIGN_OR_RETURN(const auto found, file_.find_f32(key(suffix)));
  const float value = found.value_or(otherwise);
  if (!(value >= bounds.least && value <= bounds.most)) {  // NaN, too
    return wrong(model_file::quoted(key(suffix)) + " is " + number_text(value) +
                 "; it must be at least " + number_text(bounds.least) + " and at most " +
                 number_text(bounds.most));
  }
  return value;
}

}  // namespace baton::model
