#include "common/model_file/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <set>

static_assert(std::endian::native == std::endian::little, "GGUF is read in place");

namespace baton::model_file {
namespace {

constexpr uint32_t kVersion = 3;
constexpr uint32_t kVersionOtherEndian = 0x03000000;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = 1u << 20;
constexpr uint32_t kMaxDims = 4;

// Walks the header; every read is compared with what is left first.
class Cursor final {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t offset() const { return offset_; }
  uint64_t left() const { return bytes_.size() - offset_; }

  template <typename T>
  std::optional<T> read() {
    if (left() < sizeof(T)) {
      return std::nullopt;
    }
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  std::optional<std::span<const std::byte>> take(uint64_t size) {
    if (size > left()) {
      return std::nullopt;
    }
    const auto span = bytes_.subspan(offset_, size);
    offset_ += size;
    return span;
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t offset_ = 0;
};

bool starts_with(std::span<const std::byte> bytes, std::string_view prefix) {
  return bytes.size() >= prefix.size() &&
         std::memcmp(bytes.data(), prefix.data(), prefix.size()) == 0;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Status truncated(std::string_view what, const Cursor& cursor) {
  return invalid_argument("ends inside " + std::string(what) + " (byte " +
                          std::to_string(cursor.offset()) + "); the file is truncated");
}

// A safetensors file starts with the length of a JSON object.
bool looks_like_safetensors(std::span<const std::byte> bytes) {
  if (bytes.size() < 10 || bytes[8] != std::byte{'{'}) {
    return false;
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  return length >= 2 && length <= (100u << 20);
}

// What people really hand over instead of a GGUF file.
Status wrong_magic(std::span<const std::byte> bytes) {
  if (starts_with(bytes, "version https://git-lfs")) {
    return invalid_argument(
        "is a git-lfs pointer, not the model; fetch the file itself with `git lfs pull`");
  }
  if (starts_with(bytes, "<!DOCTYPE") || starts_with(bytes, "<!doctype") ||
      starts_with(bytes, "<html") || starts_with(bytes, "<HTML")) {
    return invalid_argument(
        "is an HTML page, not a model; download the file itself, not the page about it");
  }
  if (starts_with(bytes, "PK\x03\x04")) {
    return unsupported("is a zip archive (or a PyTorch checkpoint); Baton reads GGUF files");
  }
  if (starts_with(bytes, "GGML") || starts_with(bytes, "lmgg") || starts_with(bytes, "tjgg")) {
    return unsupported("is a GGML file, older than GGUF; convert the model to GGUF again");
  }
  if (looks_like_safetensors(bytes)) {
    return unsupported("is a safetensors file; give the folder that it and its config.json lie in");
  }
  return invalid_argument("does not start with 'GGUF'; give a GGUF model file");
}

class Parser final {
 public:
  Parser(std::span<const std::byte> bytes, const GgufLimits& limits)
      : bytes_(bytes), limits_(limits), cursor_(bytes) {}

  Result<ParsedGguf> run() {
    BATON_RETURN_IF_ERROR(read_header());
    BATON_RETURN_IF_ERROR(read_metadata());
    BATON_RETURN_IF_ERROR(read_alignment());
    BATON_RETURN_IF_ERROR(read_tensors());
    BATON_RETURN_IF_ERROR(check_types());
    BATON_RETURN_IF_ERROR(place_tensors());
    return std::move(parsed_);
  }

 private:
  struct Placement {
    uint64_t offset;  // relative to the data section
    uint64_t size;
    size_t tensor;  // index into parsed_.tensors
  };

  Status read_header() {
    if (!starts_with(bytes_, "GGUF")) {
      return wrong_magic(bytes_);
    }
    (void)cursor_.take(4);
    const auto version = cursor_.read<uint32_t>();
    const auto tensors = cursor_.read<int64_t>();
    const auto entries = cursor_.read<int64_t>();
    if (!version || !tensors || !entries) {
      return truncated("the header", cursor_);
    }
    if (*version == kVersionOtherEndian) {
      return unsupported("is a big-endian GGUF file; convert it to little endian");
    }
    if (*version != kVersion) {
      return unsupported("is GGUF version " + std::to_string(*version) +
                         "; Baton reads version 3: convert the model again");
    }
    BATON_RETURN_IF_ERROR(check_count("tensors", *tensors, limits_.max_tensors));
    BATON_RETURN_IF_ERROR(check_count("metadata entries", *entries, limits_.max_metadata_entries));
    tensor_count_ = static_cast<uint64_t>(*tensors);
    entry_count_ = static_cast<uint64_t>(*entries);
    return {};
  }

  static Status check_count(std::string_view what, int64_t count, uint64_t limit) {
    if (count < 0 || static_cast<uint64_t>(count) > limit) {
      return invalid_argument("announces " + std::to_string(count) + " " + std::string(what) +
                              "; at most " + std::to_string(limit) + " are read");
    }
    return {};
  }

  // u64 length + bytes, both checked.
  Result<std::string_view> read_string(std::string_view what, uint64_t limit) {
    const auto size = cursor_.read<uint64_t>();
    if (!size) {
      return truncated(what, cursor_);
    }
    if (*size > limit) {
      return invalid_argument(std::string(what) + " at byte " + std::to_string(cursor_.offset()) +
                              " announces " + std::to_string(*size) + " bytes; at most " +
                              std::to_string(limit) + " are read");
    }
    const auto span = cursor_.take(*size);
    if (!span) {
      return truncated(what, cursor_);
    }
    return as_text(*span);
  }

  Status read_metadata() {
    // An entry takes at least 13 bytes, so a lying count cannot make this reserve much.
    parsed_.metadata.reserve(std::min<uint64_t>(entry_count_, cursor_.left() / 13 + 1));
    for (uint64_t i = 0; i < entry_count_; ++i) {
      BATON_ASSIGN_OR_RETURN(auto key, read_string("a metadata key", limits_.max_name_bytes));
      if (key.empty()) {
        return invalid_argument("metadata entry " + std::to_string(i) + " has an empty key");
      }
      BATON_ASSIGN_OR_RETURN(auto entry, read_entry(key));
      parsed_.metadata.push_back(entry);
    }
    std::ranges::sort(parsed_.metadata, {}, &MetadataEntry::key);
    const auto twin =
        std::ranges::adjacent_find(parsed_.metadata, std::ranges::equal_to{}, &MetadataEntry::key);
    if (twin != parsed_.metadata.end()) {
      return invalid_argument("has the metadata key " + quoted(twin->key) + " twice");
    }
    return {};
  }

  Result<MetadataType> read_type(std::string_view key) {
    const auto number = cursor_.read<uint32_t>();
    if (!number) {
      return truncated("the type of " + quoted(key), cursor_);
    }
    if (*number > static_cast<uint32_t>(MetadataType::kF64)) {
      return invalid_argument("metadata key " + quoted(key) + " has type " +
                              std::to_string(*number) + "; types are 0 to 12");
    }
    return static_cast<MetadataType>(*number);
  }

  Result<MetadataEntry> read_entry(std::string_view key) {
    MetadataEntry entry{key, MetadataType::kU8, MetadataType::kU8, 1, {}};
    BATON_ASSIGN_OR_RETURN(entry.type, read_type(key));
    entry.element_type = entry.type;
    if (entry.type == MetadataType::kArray) {
      BATON_ASSIGN_OR_RETURN(entry.element_type, read_type(key));
      if (entry.element_type == MetadataType::kArray) {
        return unsupported("metadata key " + quoted(key) +
                           " is an array of arrays, which Baton does not read");
      }
      const auto count = cursor_.read<uint64_t>();
      if (!count) {
        return truncated("the array " + quoted(key), cursor_);
      }
      if (*count > limits_.max_array_elements) {
        return invalid_argument("metadata array " + quoted(key) + " announces " +
                                std::to_string(*count) + " elements; at most " +
                                std::to_string(limits_.max_array_elements) + " are read");
      }
      entry.count = *count;
    }
    const uint64_t start = cursor_.offset();
    BATON_RETURN_IF_ERROR(skip_elements(entry));
    entry.value = bytes_.subspan(start, cursor_.offset() - start);
    return entry;
  }

  Status skip_elements(const MetadataEntry& entry) {
    const std::string what = "the value of " + quoted(entry.key);
    if (entry.element_type == MetadataType::kString) {
      for (uint64_t i = 0; i < entry.count; ++i) {
        BATON_RETURN_IF_ERROR(read_string(what, limits_.max_string_bytes).status());
      }
      return {};
    }
    // count <= max_array_elements, so the product fits.
    const auto span = cursor_.take(entry.count * metadata_scalar_bytes(entry.element_type));
    if (!span) {
      return truncated(what, cursor_);
    }
    const auto is_no_bool = [](std::byte b) { return b > std::byte{1}; };
    if (entry.element_type == MetadataType::kBool && std::ranges::any_of(*span, is_no_bool)) {
      return invalid_argument(what + " is neither 0 nor 1, but its type is bool");
    }
    return {};
  }

  const MetadataEntry* find(std::string_view key) const {
    const auto it = std::ranges::lower_bound(parsed_.metadata, key, {}, &MetadataEntry::key);
    return it != parsed_.metadata.end() && it->key == key ? &*it : nullptr;
  }

  Status read_alignment() {
    const MetadataEntry* entry = find("general.alignment");
    if (entry == nullptr) {
      return {};
    }
    if (entry->type != MetadataType::kU32) {
      return invalid_argument("'general.alignment' is no u32");
    }
    uint32_t value = 0;
    std::memcpy(&value, entry->value.data(), sizeof(value));
    if (!std::has_single_bit(value) || value < 8 || value > kMaxAlignment) {
      return invalid_argument("'general.alignment' is " + std::to_string(value) +
                              "; it must be a power of two from 8 to " +
                              std::to_string(kMaxAlignment));
    }
    alignment_ = value;
    return {};
  }

  Status read_tensors() {
    // A tensor's entry takes at least 32 bytes.
    const uint64_t reserve = std::min<uint64_t>(tensor_count_, cursor_.left() / 32 + 1);
    parsed_.tensors.reserve(reserve);
    placements_.reserve(reserve);
    for (uint64_t i = 0; i < tensor_count_; ++i) {
      BATON_ASSIGN_OR_RETURN(auto name, read_string("a tensor name", limits_.max_name_bytes));
      if (name.empty()) {
        return invalid_argument("tensor " + std::to_string(i) + " has an empty name");
      }
      BATON_RETURN_IF_ERROR(read_tensor(name));
    }
    return {};
  }

  Status read_tensor(std::string_view name) {
    const std::string what = "tensor " + quoted(name);
    TensorInfo tensor{name, TensorType::kF32, 0, {1, 1, 1, 1}, {}, 0};
    const auto n_dims = cursor_.read<uint32_t>();
    if (!n_dims) {
      return truncated(what, cursor_);
    }
    if (*n_dims == 0 || *n_dims > kMaxDims) {
      return invalid_argument(what + " has " + std::to_string(*n_dims) +
                              " dimensions; 1 to 4 are possible");
    }
    tensor.n_dims = *n_dims;
    for (uint32_t d = 0; d < *n_dims; ++d) {
      const auto dim = cursor_.read<int64_t>();
      if (!dim) {
        return truncated(what, cursor_);
      }
      if (*dim <= 0 || static_cast<uint64_t>(*dim) > limits_.max_dim) {
        return invalid_argument(what + ": dimension " + std::to_string(d) + " is " +
                                std::to_string(*dim) + "; it must be 1 to " +
                                std::to_string(limits_.max_dim));
      }
      tensor.dims[d] = static_cast<uint64_t>(*dim);
    }
    const auto type = cursor_.read<uint32_t>();
    const auto offset = cursor_.read<uint64_t>();
    if (!type || !offset) {
      return truncated(what, cursor_);
    }
    const auto known = tensor_type_from_number(*type);
    if (!known) {
      note_unknown_type(what, *type);
      return {};
    }
    tensor.type = *known;
    BATON_ASSIGN_OR_RETURN(const uint64_t size, tensor_bytes(tensor, what));
    placements_.push_back({*offset, size, parsed_.tensors.size()});
    parsed_.tensors.push_back(tensor);
    return {};
  }

  // All of them are named at once: a file that is quantised further mixes several.
  void note_unknown_type(const std::string& what, uint32_t number) {
    const std::string type =
        std::string(tensor_type_name(number)) + " (" + std::to_string(number) + ")";
    if (unknown_types_ == 0) {
      first_unknown_ = what + " has type " + type;
    }
    constexpr size_t kMaxNamed = 8;
    if (unknown_names_.size() < kMaxNamed) {
      unknown_names_.insert(type);
    }
    ++unknown_types_;
  }

  Status check_types() const {
    if (unknown_types_ == 0) {
      return {};
    }
    std::string names;
    for (const std::string& name : unknown_names_) {
      names += " " + name;
    }
    const std::string more = unknown_types_ == 1 ? ""
                                                 : ", and " + std::to_string(unknown_types_ - 1) +
                                                       " more have one of" + names;
    return unsupported(first_unknown_ + more + "; Baton reads " + tensor_type_names());
  }

  // The product of at most four dims, each <= max_dim, kept below the file's size at every step.
  Result<uint64_t> tensor_bytes(const TensorInfo& tensor, const std::string& what) const {
    const TensorTypeInfo& info = tensor_type_info(tensor.type);
    if (tensor.dims[0] % info.block_elements != 0) {
      return invalid_argument(what + " has rows of " + std::to_string(tensor.dims[0]) +
                              " elements; " + std::string(info.name) + " needs a multiple of " +
                              std::to_string(info.block_elements));
    }
    uint64_t size = tensor.dims[0] / info.block_elements;
    for (const uint64_t factor :
         {uint64_t{info.block_bytes}, tensor.dims[1], tensor.dims[2], tensor.dims[3]}) {
      if (factor > bytes_.size() || size > bytes_.size() / factor) {
        return invalid_argument(what + " of " + dims_to_string(tensor) + " " +
                                std::string(info.name) + " is larger than the whole file (" +
                                std::to_string(bytes_.size()) + " bytes); the file is truncated");
      }
      size *= factor;
    }
    return size;
  }

  Status place_tensors() {
    const uint64_t data_start = (cursor_.offset() + alignment_ - 1) / alignment_ * alignment_;
    // A file without tensors may end before the data section would start.
    const uint64_t data_size = data_start < bytes_.size() ? bytes_.size() - data_start : 0;
    for (const Placement& place : placements_) {
      TensorInfo& tensor = parsed_.tensors[place.tensor];
      if (place.offset % alignment_ != 0) {
        return invalid_argument("tensor " + quoted(tensor.name) + " starts at offset " +
                                std::to_string(place.offset) + ", no multiple of the alignment " +
                                std::to_string(alignment_));
      }
      if (place.offset > data_size || place.size > data_size - place.offset) {
        return invalid_argument("tensor " + quoted(tensor.name) + " takes bytes " +
                                std::to_string(place.offset) + " + " + std::to_string(place.size) +
                                " of a data section of " + std::to_string(data_size) +
                                "; the file is truncated");
      }
      tensor.data = bytes_.subspan(data_start + place.offset, place.size);
    }
    BATON_RETURN_IF_ERROR(check_overlap());
    std::ranges::sort(parsed_.tensors, {}, &TensorInfo::name);
    const auto twin =
        std::ranges::adjacent_find(parsed_.tensors, std::ranges::equal_to{}, &TensorInfo::name);
    if (twin != parsed_.tensors.end()) {
      return invalid_argument("has the tensor " + quoted(twin->name) + " twice");
    }
    return {};
  }

  Status check_overlap() {
    std::ranges::sort(placements_, {}, &Placement::offset);
    for (size_t i = 1; i < placements_.size(); ++i) {
      const Placement& before = placements_[i - 1];
      if (placements_[i].offset < before.offset + before.size) {
        return invalid_argument("tensors " + quoted(parsed_.tensors[before.tensor].name) + " and " +
                                quoted(parsed_.tensors[placements_[i].tensor].name) + " overlap");
      }
    }
    return {};
  }

  std::span<const std::byte> bytes_;
  const GgufLimits& limits_;
  Cursor cursor_;
  uint64_t tensor_count_ = 0;
  uint64_t entry_count_ = 0;
  uint64_t alignment_ = kDefaultAlignment;
  ParsedGguf parsed_;
  std::vector<Placement> placements_;
  uint64_t unknown_types_ = 0;  // tensors
  std::string first_unknown_;
  std::set<std::string> unknown_names_;
};

}  // namespace

Result<ParsedGguf> parse_gguf(std::span<const std::byte> bytes, const GgufLimits& limits) {
  return Parser(bytes, limits).run();
}

uint64_t metadata_scalar_bytes(MetadataType type) {
  switch (type) {
    case MetadataType::kU8:
    case MetadataType::kI8:
    case MetadataType::kBool:
      return 1;
    case MetadataType::kU16:
    case MetadataType::kI16:
      return 2;
    case MetadataType::kU32:
    case MetadataType::kI32:
    case MetadataType::kF32:
      return 4;
    case MetadataType::kU64:
    case MetadataType::kI64:
    case MetadataType::kF64:
      return 8;
    case MetadataType::kString:
    case MetadataType::kArray:
      return 0;
  }
  return 0;
}

std::string quoted(std::string_view text) {
  constexpr size_t kMaxShown = 80;
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "'";
  for (const char c : text.substr(0, kMaxShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F) {
      out += c;
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out + (text.size() > kMaxShown ? "...'" : "'");
}

}  // namespace baton::model_file
