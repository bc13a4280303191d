#pragma once

// Writes GGUF files into memory for tests, right and wrong ones: nothing is checked here.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/model_file/model_file.h"

namespace baton::model_file {

class GgufBuilder final {
 public:
  std::string magic = "GGUF";
  uint32_t version = 3;
  uint32_t alignment = 32;  // used for padding; written only by add_u32("general.alignment", ...)
  std::optional<int64_t> announced_tensors;  // in place of the true count
  std::optional<int64_t> announced_entries;

  GgufBuilder& add_raw(std::string_view key, uint32_t type, std::string_view value) {
    put_string(metadata_, key);
    put(metadata_, type);
    metadata_ += value;
    ++entries_;
    return *this;
  }
  GgufBuilder& add_u32(std::string_view key, uint32_t value) { return add_scalar(key, 4, value); }
  GgufBuilder& add_f32(std::string_view key, float value) { return add_scalar(key, 6, value); }
  GgufBuilder& add_bool(std::string_view key, bool value) {
    return add_scalar(key, 7, static_cast<uint8_t>(value));
  }
  template <typename T>
  GgufBuilder& add_scalar(std::string_view key, uint32_t type, T value) {
    std::string raw;
    put(raw, value);
    return add_raw(key, type, raw);
  }
  GgufBuilder& add_string(std::string_view key, std::string_view value) {
    std::string raw;
    put_string(raw, value);
    return add_raw(key, 8, raw);
  }
  GgufBuilder& add_strings(std::string_view key, const std::vector<std::string>& values) {
    std::string raw;
    put(raw, uint32_t{8});
    put(raw, uint64_t{values.size()});
    for (const std::string& value : values) {
      put_string(raw, value);
    }
    return add_raw(key, 9, raw);
  }
  template <typename T>
  GgufBuilder& add_array(std::string_view key, uint32_t element_type,
                         const std::vector<T>& values) {
    std::string raw;
    put(raw, element_type);
    put(raw, uint64_t{values.size()});
    for (const T value : values) {
      put(raw, value);
    }
    return add_raw(key, 9, raw);
  }

  // The data is placed after the previous tensor's, aligned, unless `offset` says where.
  GgufBuilder& add_tensor(std::string_view name, uint32_t type, const std::vector<int64_t>& dims,
                          std::string_view data, std::optional<uint64_t> offset = std::nullopt) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment, '\0');
    put_string(tensors_, name);
    put(tensors_, static_cast<uint32_t>(dims.size()));
    for (const int64_t dim : dims) {
      put(tensors_, dim);
    }
    put(tensors_, type);
    put(tensors_, offset.value_or(data_.size()));
    data_ += data;
    ++tensor_count_;
    return *this;
  }
  // Zeros of the right size.
  GgufBuilder& add_tensor(std::string_view name, TensorType type,
                          const std::vector<int64_t>& dims) {
    const TensorTypeInfo& info = tensor_type_info(type);
    uint64_t size = static_cast<uint64_t>(dims[0]) / info.block_elements * info.block_bytes;
    for (size_t d = 1; d < dims.size(); ++d) {
      size *= static_cast<uint64_t>(dims[d]);
    }
    return add_tensor(name, static_cast<uint32_t>(type), dims, std::string(size, '\0'));
  }

  std::string build() const {
    std::string out = magic;
    put(out, version);
    put(out, announced_tensors.value_or(tensor_count_));
    put(out, announced_entries.value_or(entries_));
    out += metadata_ + tensors_;
    out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
    return out + data_;
  }

  template <typename T>
  static void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  static void put_string(std::string& out, std::string_view value) {
    put(out, uint64_t{value.size()});
    out += value;
  }

 private:
  std::string metadata_;
  std::string tensors_;
  std::string data_;
  int64_t entries_ = 0;
  int64_t tensor_count_ = 0;
};

inline Result<ModelFile> parse_text(const std::string& bytes, const GgufLimits& limits = {}) {
  return ModelFile::parse(std::as_bytes(std::span(bytes)), "test.gguf", limits);
}

}  // namespace baton::model_file
