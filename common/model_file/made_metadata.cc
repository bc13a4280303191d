#include "common/model_file/made_metadata.h"

#include <algorithm>
#include <span>

namespace baton::model_file {
namespace {

template <typename T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

}  // namespace

void MadeMetadata::add(std::string_view key, MetadataType type, std::string value) {
  entries_.push_back({std::string(key), type, std::move(value)});
}

void MadeMetadata::add_u32(std::string_view key, uint32_t value) {
  add(key, MetadataType::kU32, bytes_of(value));
}

void MadeMetadata::add_f32(std::string_view key, float value) {
  add(key, MetadataType::kF32, bytes_of(value));
}

void MadeMetadata::add_string(std::string_view key, std::string_view value) {
  add(key, MetadataType::kString, bytes_of(uint64_t{value.size()}) + std::string(value));
}

std::vector<MetadataEntry> MadeMetadata::finish(std::deque<std::string>& made) && {
  std::ranges::sort(entries_, {}, &Entry::key);
  std::vector<MetadataEntry> out;
  for (Entry& entry : entries_) {
    const std::string& key = made.emplace_back(std::move(entry.key));
    const std::string& value = made.emplace_back(std::move(entry.value));
    out.push_back({key, entry.type, entry.type, 1, std::as_bytes(std::span(value))});
  }
  entries_.clear();
  return out;
}

}  // namespace baton::model_file
