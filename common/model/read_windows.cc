#include "common/model/key_reader.h"

namespace baton::model {
namespace {

using model_file::MetadataEntry;
using model_file::MetadataType;

constexpr std::string_view kWindow = "attention.sliding_window";
constexpr std::string_view kPattern = "attention.sliding_window_pattern";
constexpr int kFiveOfSixPeriod = 6;

// true: the layer has the window. One entry a layer.
Result<std::vector<bool>> pattern_from_array(const KeyReader& keys, const MetadataEntry& entry,
                                             int layers) {
  if (entry.element_type != MetadataType::kBool || entry.count != static_cast<uint64_t>(layers)) {
    return keys.wrong(model_file::quoted(entry.key) + " is " + value_text(keys.file(), entry) +
                      "; it must be a number or an array of " + std::to_string(layers) + " bool");
  }
  std::vector<bool> has(static_cast<size_t>(layers));
  for (size_t layer = 0; layer < has.size(); ++layer) {
    has[layer] = entry.value[layer] != std::byte{0};
  }
  return has;
}

Result<std::vector<bool>> read_pattern(const KeyReader& keys, int layers) {
  const MetadataEntry* entry = keys.file().find(keys.key(kPattern));
  if (entry != nullptr && entry->type == MetadataType::kArray) {
    return pattern_from_array(keys, *entry, layers);
  }
  int period = 0;  // every so manieth layer has none; 0: all have it
  if (entry != nullptr) {
    BATON_ASSIGN_OR_RETURN(period, keys.get_int(kPattern, 1024));
  } else if (keys.architecture().windows == WindowPattern::kFiveOfSix) {
    period = kFiveOfSixPeriod;
  }
  std::vector<bool> has(static_cast<size_t>(layers));
  for (int layer = 0; layer < layers; ++layer) {
    has[static_cast<size_t>(layer)] = period == 0 || (layer + 1) % period != 0;
  }
  return has;
}

}  // namespace

Result<std::vector<int>> read_windows(const KeyReader& keys, int layers) {
  std::vector<int> windows(static_cast<size_t>(layers), 0);
  if (keys.architecture().windows == WindowPattern::kNone) {
    return windows;
  }
  if (keys.architecture().windows == WindowPattern::kAll) {
    BATON_ASSIGN_OR_RETURN(const auto value, keys.file().find_u32(keys.key(kWindow)));
    if (value.value_or(0) == 0) {
      return windows;
    }
  }
  BATON_ASSIGN_OR_RETURN(const int window, keys.get_int(kWindow, 1u << 24));
  BATON_ASSIGN_OR_RETURN(const std::vector<bool> has, read_pattern(keys, layers));
  for (size_t layer = 0; layer < windows.size(); ++layer) {
    windows[layer] = has[layer] ? window : 0;
  }
  return windows;
}

}  // namespace baton::model
