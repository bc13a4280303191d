#pragma once

// Metadata as a GGUF file would store it, made from something else.

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/model_file/model_file.h"

namespace baton::model_file {

class MadeMetadata final {
 public:
  // Keys of one object must differ.
  void add_u32(std::string_view key, uint32_t value);
  void add_f32(std::string_view key, float value);
  void add_string(std::string_view key, std::string_view value);

  // Sorted; the entries point into `made`, which is appended to and must live as long.
  std::vector<MetadataEntry> finish(std::deque<std::string>& made) &&;

 private:
  void add(std::string_view key, MetadataType type, std::string value);

  struct Entry {
    std::string key;
    MetadataType type;
    std::string value;
  };
  std::vector<Entry> entries_;
};

}  // namespace baton::model_file
