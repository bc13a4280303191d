#include "common/model_file/model_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "common/model_file/gguf_parts.h"
#include "common/model_file/safetensors_folder.h"

namespace baton::model_file {
namespace {

template <typename T>
T load(std::span<const std::byte> bytes, size_t index = 0) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
std::optional<uint64_t> non_negative(T value) {
  return value < T{0} ? std::nullopt : std::optional<uint64_t>(static_cast<uint64_t>(value));
}

// Precondition: the parser has checked every length.
std::string_view string_at(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()) + sizeof(uint64_t), load<uint64_t>(bytes)};
}

template <typename T>
Result<std::optional<T>> optional_of(bool present, Result<T> result) {
  if (!present) {
    return std::optional<T>();
  }
  BATON_RETURN_IF_ERROR(result.status());
  return std::optional<T>(*result);
}

std::string without_end_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.pop_back();
  }
  return path;
}

bool has_safetensors(const std::string& path) {
  std::error_code error;
  std::filesystem::directory_iterator entries(path, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    if (entries->path().extension() == ".safetensors") {
      return true;
    }
  }
  return false;
}

template <typename T>
std::vector<T> copy_elements(const MetadataEntry& entry) {
  std::vector<T> out(entry.count);
  if (!out.empty()) {
    std::memcpy(out.data(), entry.value.data(), out.size() * sizeof(T));
  }
  return out;
}

}  // namespace

std::string_view metadata_type_name(MetadataType type) {
  constexpr std::array<std::string_view, 13> kNames = {"u8",  "i8",  "u16",  "i16",    "u32",
                                                       "i32", "f32", "bool", "string", "array",
                                                       "u64", "i64", "f64"};
  return kNames[static_cast<size_t>(type)];
}

std::optional<uint64_t> unsigned_value(const MetadataEntry& entry) {
  switch (entry.type) {
    case MetadataType::kU8:
      return load<uint8_t>(entry.value);
    case MetadataType::kU16:
      return load<uint16_t>(entry.value);
    case MetadataType::kU32:
      return load<uint32_t>(entry.value);
    case MetadataType::kU64:
      return load<uint64_t>(entry.value);
    case MetadataType::kI8:
      return non_negative(load<int8_t>(entry.value));
    case MetadataType::kI16:
      return non_negative(load<int16_t>(entry.value));
    case MetadataType::kI32:
      return non_negative(load<int32_t>(entry.value));
    case MetadataType::kI64:
      return non_negative(load<int64_t>(entry.value));
    case MetadataType::kF32:
    case MetadataType::kF64:
    case MetadataType::kBool:
    case MetadataType::kString:
    case MetadataType::kArray:
      return std::nullopt;
  }
  return std::nullopt;
}

std::string dims_to_string(const TensorInfo& tensor) {
  std::string out = "[";
  for (uint32_t d = 0; d < tensor.n_dims; ++d) {
    out += (d == 0 ? "" : ", ") + std::to_string(tensor.dims[d]);
  }
  return out + "]";
}

Result<ModelFile> ModelFile::open(const std::string& path, const GgufLimits& limits) {
  const std::string shown = without_end_slashes(path);
  BATON_ASSIGN_OR_RETURN(ModelFileContents contents, has_safetensors(path)
                                                         ? open_safetensors_folder(shown)
                                                         : open_gguf(shown, limits));
  return ModelFile(std::move(contents));
}

Result<ModelFile> ModelFile::parse(std::span<const std::byte> bytes, std::string name,
                                   const GgufLimits& limits) {
  Result<ParsedGguf> parsed = parse_gguf(bytes, limits);
  if (!parsed.ok()) {
    return parsed.status().with_context(name);
  }
  std::vector<GgufPart> parts;
  parts.push_back({std::move(name), std::move(*parsed)});
  BATON_ASSIGN_OR_RETURN(ModelFileContents contents, join_gguf_parts(std::move(parts)));
  return ModelFile(std::move(contents));
}

ModelFile::ModelFile(ModelFileContents contents) : contents_(std::move(contents)) {
  std::vector<FileIdentity> identities;
  for (const MappedFile& file : contents_.files) {
    identities.push_back(file.identity());
  }
  identity_ = combined_identity(identities);
  owner_ = contents_.files.empty() ? 0 : contents_.files.front().owner();
}

void ModelFile::release_pages() const {
  for (const MappedFile& file : contents_.files) {
    file.release_pages();
  }
}

const MetadataEntry* ModelFile::find(std::string_view key) const {
  const auto it = std::ranges::lower_bound(contents_.metadata, key, {}, &MetadataEntry::key);
  return it != contents_.metadata.end() && it->key == key ? &*it : nullptr;
}

Status ModelFile::wrong_type(const MetadataEntry& entry, std::string_view expected) const {
  std::string actual(metadata_type_name(entry.type));
  if (entry.type == MetadataType::kArray) {
    actual = "an array of " + std::string(metadata_type_name(entry.element_type));
  }
  return invalid_argument(contents_.name + ": metadata key " + quoted(entry.key) + " is " + actual +
                          ", not " + std::string(expected));
}

Result<const MetadataEntry*> ModelFile::require(std::string_view key, MetadataType type) const {
  const MetadataEntry* entry = find(key);
  if (entry == nullptr) {
    return invalid_argument(contents_.name + ": metadata key " + quoted(key) + " (" +
                            std::string(metadata_type_name(type)) + ") is missing");
  }
  return entry;
}

Result<const MetadataEntry*> ModelFile::require_array(std::string_view key,
                                                      MetadataType element) const {
  BATON_ASSIGN_OR_RETURN(const MetadataEntry* entry, require(key, MetadataType::kArray));
  if (entry->type != MetadataType::kArray || entry->element_type != element) {
    return wrong_type(*entry, "an array of " + std::string(metadata_type_name(element)));
  }
  return entry;
}

Result<uint64_t> ModelFile::get_u64(std::string_view key) const {
  BATON_ASSIGN_OR_RETURN(const MetadataEntry* entry, require(key, MetadataType::kU64));
  const auto value = unsigned_value(*entry);
  if (!value) {
    return wrong_type(*entry, "a non-negative integer");
  }
  return *value;
}

Result<uint32_t> ModelFile::get_u32(std::string_view key) const {
  BATON_ASSIGN_OR_RETURN(const MetadataEntry* entry, require(key, MetadataType::kU32));
  const auto value = unsigned_value(*entry);
  if (!value) {
    return wrong_type(*entry, "a non-negative integer");
  }
  if (*value > std::numeric_limits<uint32_t>::max()) {
    return invalid_argument(contents_.name + ": metadata key " + quoted(key) + " is " +
                            std::to_string(*value) + "; it must be below 2^32");
  }
  return static_cast<uint32_t>(*value);
}

Result<float> ModelFile::get_f32(std::string_view key) const {
  BATON_ASSIGN_OR_RETURN(const MetadataEntry* entry, require(key, MetadataType::kF32));
  if (entry->type == MetadataType::kF32) {
    return load<float>(entry->value);
  }
  if (entry->type == MetadataType::kF64) {
    return static_cast<float>(load<double>(entry->value));
  }
  return wrong_type(*entry, "f32");
}

Result<bool> ModelFile::get_bool(std::string_view key) const {
  BATON_ASSIGN_OR_RETURN(const MetadataEntry* entry, require(key, MetadataType::kBool));
  if (entry->type != MetadataType::kBool) {
    return wrong_type(*entry, "bool");
  }
  return load<uint8_t>(entry->value) != 0;
}

Result<std::string_view> ModelFile::get_string(std::string_view key) const {
  BATON_ASSIGN_OR_RETURN(const MetadataEntry* entry, require(key, MetadataType::kString));
  if (entry->type != MetadataType::kString) {
    return wrong_type(*entry, "string");
  }
  return string_at(entry->value);
}

Result<std::vector<std::string_view>> ModelFile::get_strings(std::string_view key) const {
  BATON_ASSIGN_OR_RETURN(const MetadataEntry* entry, require_array(key, MetadataType::kString));
  std::vector<std::string_view> out;
  out.reserve(entry->count);
  auto rest = entry->value;
  for (uint64_t i = 0; i < entry->count; ++i) {
    out.push_back(string_at(rest));
    rest = rest.subspan(sizeof(uint64_t) + out.back().size());
  }
  return out;
}

Result<std::vector<int32_t>> ModelFile::get_i32s(std::string_view key) const {
  BATON_ASSIGN_OR_RETURN(const MetadataEntry* entry, require_array(key, MetadataType::kI32));
  return copy_elements<int32_t>(*entry);
}

Result<std::vector<float>> ModelFile::get_f32s(std::string_view key) const {
  BATON_ASSIGN_OR_RETURN(const MetadataEntry* entry, require_array(key, MetadataType::kF32));
  return copy_elements<float>(*entry);
}

Result<std::optional<uint32_t>> ModelFile::find_u32(std::string_view key) const {
  return optional_of(has(key), get_u32(key));
}
Result<std::optional<float>> ModelFile::find_f32(std::string_view key) const {
  return optional_of(has(key), get_f32(key));
}
Result<std::optional<bool>> ModelFile::find_bool(std::string_view key) const {
  return optional_of(has(key), get_bool(key));
}
Result<std::optional<std::string_view>> ModelFile::find_string(std::string_view key) const {
  return optional_of(has(key), get_string(key));
}

const TensorInfo* ModelFile::find_tensor(std::string_view name) const {
  const auto it = std::ranges::lower_bound(contents_.tensors, name, {}, &TensorInfo::name);
  return it != contents_.tensors.end() && it->name == name ? &*it : nullptr;
}

Result<const TensorInfo*> ModelFile::get_tensor(std::string_view name) const {
  const TensorInfo* tensor = find_tensor(name);
  if (tensor == nullptr) {
    return invalid_argument(contents_.name + ": tensor " + quoted(name) + " is missing");
  }
  return tensor;
}

}  // namespace baton::model_file
