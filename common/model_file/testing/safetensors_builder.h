#pragma once

// Writes safetensors files into memory for tests.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace baton::model_file {

class SafetensorsBuilder final {
 public:
  SafetensorsBuilder& add(std::string_view name, std::string_view dtype,
                          const std::vector<uint64_t>& shape, std::string_view data) {
    std::string dims;
    for (const uint64_t dim : shape) {
      dims += (dims.empty() ? "" : ",") + std::to_string(dim);
    }
    const size_t begin = data_.size();
    data_ += data;
    return add_entry(name, "{\"dtype\":\"" + std::string(dtype) + "\",\"shape\":[" + dims +
                               "],\"data_offsets\":[" + std::to_string(begin) + "," +
                               std::to_string(data_.size()) + "]}");
  }
  SafetensorsBuilder& add_entry(std::string_view name, std::string_view json) {
    entries_ += (entries_.empty() ? "\"" : ",\"") + std::string(name) + "\":" + std::string(json);
    return *this;
  }
  SafetensorsBuilder& add_data(std::string_view data) {
    data_ += data;
    return *this;
  }

  std::string build() const {
    const std::string header = "{" + entries_ + "}";
    const uint64_t size = header.size();
    return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + header + data_;
  }

 private:
  std::string entries_;
  std::string data_;
};

}  // namespace baton::model_file
