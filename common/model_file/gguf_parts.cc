#include "common/model_file/gguf_parts.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

namespace baton::model_file {
namespace {

constexpr uint64_t kMaxParts = 4096;
constexpr std::string_view kSplitPrefix = "split.";

const MetadataEntry* find_entry(const ParsedGguf& parsed, std::string_view key) {
  const auto it = std::ranges::lower_bound(parsed.metadata, key, {}, &MetadataEntry::key);
  return it != parsed.metadata.end() && it->key == key ? &*it : nullptr;
}

// A number of the split section, whatever integer type it has; nothing when absent.
Result<std::optional<uint64_t>> split_number(const GgufPart& part, std::string_view key) {
  const MetadataEntry* entry = find_entry(part.parsed, key);
  if (entry == nullptr) {
    return std::optional<uint64_t>();
  }
  const std::optional<uint64_t> value = unsigned_value(*entry);
  if (!value) {
    return invalid_argument(part.name + ": metadata key " + quoted(key) + " is " +
                            std::string(metadata_type_name(entry->type)) +
                            ", not a non-negative integer");
  }
  return value;
}

struct Split {
  uint64_t number = 0;  // from 0
  uint64_t count = 1;
  std::optional<uint64_t> tensors;  // of all parts

  std::string text() const {
    return "part " + std::to_string(number + 1) + " of " + std::to_string(count);
  }
};

Result<Split> split_of(const GgufPart& part) {
  Split split;
  BATON_ASSIGN_OR_RETURN(const auto count, split_number(part, "split.count"));
  split.count = std::max<uint64_t>(count.value_or(1), 1);
  if (split.count == 1) {
    return split;
  }
  BATON_ASSIGN_OR_RETURN(const auto number, split_number(part, "split.no"));
  BATON_ASSIGN_OR_RETURN(split.tensors, split_number(part, "split.tensors.count"));
  if (split.count > kMaxParts) {
    return invalid_argument(part.name + ": 'split.count' is " + std::to_string(split.count) +
                            "; at most " + std::to_string(kMaxParts) + " parts are read");
  }
  if (!number || *number >= split.count) {
    return invalid_argument(part.name + ": 'split.no' " +
                            (number ? "is " + std::to_string(*number) : "is missing") +
                            "; it must be below 'split.count', " + std::to_string(split.count));
  }
  split.number = *number;
  return split;
}

std::string name_suffix(uint64_t number, uint64_t count) {
  char text[64];
  std::snprintf(text, sizeof(text), "-%05llu-of-%05llu.gguf",
                static_cast<unsigned long long>(number + 1),
                static_cast<unsigned long long>(count));
  return text;
}

struct MappedPart {
  MappedFile file;
  GgufPart part;
};

Result<MappedPart> open_part(const std::string& path, const GgufLimits& limits) {
  BATON_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  Result<ParsedGguf> parsed = parse_gguf(file.bytes(), limits);
  if (!parsed.ok()) {
    return parsed.status().with_context(path);
  }
  return MappedPart{std::move(file), {path, std::move(*parsed)}};
}

// Part `number` of the model whose other part `given` was named.
Result<MappedPart> open_other_part(const std::string& path, const std::string& given,
                                   const GgufLimits& limits) {
  Result<MappedPart> part = open_part(path, limits);
  if (!part.ok() && part.status().code() == StatusCode::kNotFound) {
    return not_found(path + ": no such file; " + given + " is a part of the same split model");
  }
  return part;
}

// Whatever a later part says beside its place must be what the first one says.
Status check_metadata(const GgufPart& first, const GgufPart& part) {
  for (const MetadataEntry& entry : part.parsed.metadata) {
    if (entry.key.starts_with(kSplitPrefix)) {
      continue;
    }
    const MetadataEntry* same = find_entry(first.parsed, entry.key);
    if (same == nullptr || same->type != entry.type || same->element_type != entry.element_type ||
        !std::ranges::equal(same->value, entry.value)) {
      return invalid_argument(part.name + ": metadata key " + quoted(entry.key) + " is not what " +
                              first.name + " says; they are parts of two models");
    }
  }
  return {};
}

Status check_part(const std::vector<GgufPart>& parts, size_t index, const Split& first) {
  const GgufPart& part = parts[index];
  BATON_ASSIGN_OR_RETURN(const Split split, split_of(part));
  if (split.number != index || split.count != parts.size()) {
    return invalid_argument(part.name + ": is " + split.text() + " by its metadata, not part " +
                            std::to_string(index + 1) + " of " + std::to_string(parts.size()));
  }
  if (split.tensors != first.tensors) {
    return invalid_argument(part.name + ": 'split.tensors.count' is not what " +
                            parts.front().name + " says; they are parts of two models");
  }
  return index == 0 ? Status() : check_metadata(parts.front(), part);
}

}  // namespace

Result<ModelFileContents> open_gguf(const std::string& path, const GgufLimits& limits) {
  BATON_ASSIGN_OR_RETURN(MappedPart given, open_part(path, limits));
  BATON_ASSIGN_OR_RETURN(const Split split, split_of(given.part));
  const std::string suffix = name_suffix(split.number, split.count);
  if (split.count > 1 && !path.ends_with(suffix)) {
    return invalid_argument(path + ": is " + split.text() +
                            " of a split model, so its name must end in " + suffix);
  }
  std::vector<GgufPart> parts;
  std::vector<MappedFile> files;
  for (uint64_t i = 0; i < split.count; ++i) {
    if (i == split.number) {
      files.push_back(std::move(given.file));
      parts.push_back(std::move(given.part));
      continue;
    }
    const std::string other =
        path.substr(0, path.size() - suffix.size()) + name_suffix(i, split.count);
    BATON_ASSIGN_OR_RETURN(MappedPart part, open_other_part(other, path, limits));
    files.push_back(std::move(part.file));
    parts.push_back(std::move(part.part));
  }
  BATON_ASSIGN_OR_RETURN(ModelFileContents contents, join_gguf_parts(std::move(parts)));
  contents.files = std::move(files);
  return contents;
}

Result<ModelFileContents> join_gguf_parts(std::vector<GgufPart> parts) {
  GgufPart& first = parts.front();
  BATON_ASSIGN_OR_RETURN(const Split split, split_of(first));
  for (size_t i = 0; i < parts.size(); ++i) {
    BATON_RETURN_IF_ERROR(check_part(parts, i, split));
  }
  ModelFileContents contents;
  contents.tensors = std::move(first.parsed.tensors);
  for (size_t i = 1; i < parts.size(); ++i) {
    std::ranges::copy(parts[i].parsed.tensors, std::back_inserter(contents.tensors));
  }
  std::ranges::sort(contents.tensors, {}, &TensorInfo::name);
  const auto twin =
      std::ranges::adjacent_find(contents.tensors, std::ranges::equal_to{}, &TensorInfo::name);
  if (twin != contents.tensors.end()) {
    return invalid_argument(first.name + ": the tensor " + quoted(twin->name) +
                            " is in two parts of the split model");
  }
  if (split.tensors && *split.tensors != contents.tensors.size()) {
    return invalid_argument(
        first.name + ": the parts have " + std::to_string(contents.tensors.size()) +
        " tensors together, but 'split.tensors.count' is " + std::to_string(*split.tensors));
  }
  contents.name = std::move(first.name);
  contents.metadata = std::move(first.parsed.metadata);
  return contents;
}

}  // namespace baton::model_file
