#pragma once

// GGUF v3, little endian, read only (format: docs of ggml,
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
//
// The file is mapped, not read: opening costs its header, and every view handed out (strings, array
// elements, tensor bytes) points into the mapping. Nothing in the file is trusted: each length is
// compared with what is left and with GgufLimits before it is multiplied, allocated or followed, so
// a truncated or hostile file ends in a Status and never in a crash. What the file says but Baton
// does not read (split files, tensor types, nested arrays) is refused by name.
//
// Threads: immutable after open, so any number of threads may read. Lifetime: views die with the
// GgufFile; moving it keeps them valid. The file must not be truncated by others while it is
// mapped. Errors: not_found (no such file), unsupported (well-formed, but not read by Baton),
// invalid_argument (everything else); the message is one line and starts with the file's name.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/model_file/mapped_file.h"
#include "common/model_file/tensor_type.h"

namespace baton::model_file {

// The numbers are those of the file.
enum class MetadataType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
std::string_view metadata_type_name(MetadataType type);

// What a file may hold at most. The defaults are far above any published model.
struct GgufLimits {
  uint64_t max_metadata_entries = 1u << 16;
  uint64_t max_tensors = 1u << 17;
  uint64_t max_name_bytes = 1024;           // keys and tensor names
  uint64_t max_string_bytes = 64ull << 20;  // one value
  uint64_t max_array_elements = 16ull << 20;
  uint64_t max_dim = 1ull << 32;  // of one tensor dimension
};

struct MetadataEntry {
  std::string_view key;
  MetadataType type;
  MetadataType element_type;         // kArray only; otherwise equal to type
  uint64_t count;                    // elements of an array; 1 otherwise
  std::span<const std::byte> value;  // as stored; strings with their length prefix
};

struct TensorInfo {
  std::string_view name;
  TensorType type;
  uint32_t n_dims;                  // 1..4
  std::array<uint64_t, 4> dims;     // dims[0] is contiguous (a row); unused ones are 1
  std::span<const std::byte> data;  // exactly rows() * row_bytes()

  uint64_t row_elements() const { return dims[0]; }
  uint64_t rows() const { return dims[1] * dims[2] * dims[3]; }
  uint64_t row_bytes() const { return data.size() / rows(); }
  // row < rows().
  std::span<const std::byte> row(uint64_t index) const {
    return data.subspan(index * row_bytes(), row_bytes());
  }
};
// "[576, 49152]", as the file orders them.
std::string dims_to_string(const TensorInfo& tensor);

// Text from a file for a message: control characters and bytes above 0x7E as \xNN, at most 80
// characters, in single quotes.
std::string quoted(std::string_view text);

class GgufFile final {
 public:
  static Result<GgufFile> open(const std::string& path, const GgufLimits& limits = {});
  // The same over bytes that the caller keeps alive; `name` stands for the path in messages.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, std::string name,
                                const GgufLimits& limits = {});

  GgufFile(GgufFile&&) noexcept = default;
  GgufFile& operator=(GgufFile&&) noexcept = default;
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;
  ~GgufFile() = default;

  const std::string& name() const { return name_; }
  uint64_t size_bytes() const { return bytes_.size(); }
  // Of the file when it was opened; zero after parse().
  const FileIdentity& identity() const { return mapping_.identity(); }
  uint32_t owner() const { return mapping_.owner(); }  // user id
  // Lets the kernel take back the memory of what was read so far; views stay valid and are read
  // from the file again when touched. Nothing happens after parse().
  void release_pages() const { mapping_.release_pages(); }

  // --- metadata -----------------------------------------------------------------------------
  // Sorted by key, every key once.
  std::span<const MetadataEntry> metadata() const { return metadata_; }
  const MetadataEntry* find(std::string_view key) const;  // null when absent
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // get_*: a missing key or another type is an error that names key and type. Any integer type is
  // taken where an integer is asked for if the value fits; f64 where f32 is asked for.
  Result<uint32_t> get_u32(std::string_view key) const;
  Result<uint64_t> get_u64(std::string_view key) const;
  Result<float> get_f32(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key) const;
  // Elements are views or copies of 4 bytes; one allocation a call, O(count).
  Result<std::vector<std::string_view>> get_strings(std::string_view key) const;
  Result<std::vector<int32_t>> get_i32s(std::string_view key) const;
  Result<std::vector<float>> get_f32s(std::string_view key) const;

  // find_*: the same, but a missing key is no value.
  Result<std::optional<uint32_t>> find_u32(std::string_view key) const;
  Result<std::optional<float>> find_f32(std::string_view key) const;
  Result<std::optional<bool>> find_bool(std::string_view key) const;
  Result<std::optional<std::string_view>> find_string(std::string_view key) const;

  // --- tensors ------------------------------------------------------------------------------
  // Sorted by name, every name once.
  std::span<const TensorInfo> tensors() const { return tensors_; }
  const TensorInfo* find_tensor(std::string_view name) const;  // null when absent
  // A missing tensor is an error that names it.
  Result<const TensorInfo*> get_tensor(std::string_view name) const;

 private:
  GgufFile() = default;
  Result<const MetadataEntry*> require(std::string_view key, MetadataType type) const;
  Result<const MetadataEntry*> require_array(std::string_view key, MetadataType element) const;
  Status wrong_type(const MetadataEntry& entry, std::string_view expected) const;

  std::string name_;
  MappedFile mapping_;  // empty after parse()
  std::span<const std::byte> bytes_;
  std::vector<MetadataEntry> metadata_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace baton::model_file
