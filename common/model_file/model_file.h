#pragma once

// A model as Baton reads it, whatever files it lies in: metadata under the key names of GGUF and
// tensors under its tensor names (docs of ggml,
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Behind it are one GGUF file, all
// parts of a split one, or a folder of safetensors with its config.json.
//
// Files are mapped, not read: opening costs their headers, and every view handed out (strings,
// array elements, tensor bytes) points into a mapping. Nothing in a file is trusted: each length is
// compared with what is left and with GgufLimits before it is multiplied, allocated or followed, so
// a truncated or hostile file ends in a Status and never in a crash. What a file says but Baton
// does not read (tensor types, nested arrays) is refused by name.
//
// Threads: immutable after open, so any number of threads may read. Lifetime: views die with the
// ModelFile; moving it keeps them valid. Files must not be truncated by others while they are
// mapped. Errors: not_found (no such file), unsupported (well-formed, but not read by Baton),
// invalid_argument (everything else); the message is one line and starts with a file's name.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
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

// Of any integer type; nothing for other types and negative values.
std::optional<uint64_t> unsigned_value(const MetadataEntry& entry);

struct TensorInfo {
  std::string_view name;
  TensorType type;
  uint32_t n_dims;                  // 1..4
  std::array<uint64_t, 4> dims;     // dims[0] is contiguous (a row); unused ones are 1
  std::span<const std::byte> data;  // exactly rows() * row_bytes()
  // GGUF stores the halves of each head of q and k interleaved for some architectures, others do
  // not: where this is a head's number of rows, row 2i + h of a head is row h * n / 2 + i of its
  // data. 0: rows are stored in their order.
  uint32_t halved_head_rows = 0;

  uint64_t row_elements() const { return dims[0]; }
  uint64_t rows() const { return dims[1] * dims[2] * dims[3]; }
  uint64_t row_bytes() const { return data.size() / rows(); }
  // row < rows().
  std::span<const std::byte> row(uint64_t index) const {
    return data.subspan(stored_row(index) * row_bytes(), row_bytes());
  }
  uint64_t stored_row(uint64_t index) const {
    if (halved_head_rows == 0) {
      return index;
    }
    const uint64_t within = index % halved_head_rows;
    return index - within + within % 2 * (halved_head_rows / 2) + within / 2;
  }
};
// "[576, 49152]", as the file orders them.
std::string dims_to_string(const TensorInfo& tensor);

// Text from a file for a message: control characters and bytes above 0x7E as \xNN, at most 80
// characters, in single quotes.
std::string quoted(std::string_view text);

// What the readers of the formats make.
struct ModelFileContents {
  std::string name;                     // the path that stands for all files
  std::vector<MappedFile> files;        // what the views point into, and what else was read
  std::deque<std::string> made;         // bytes that lie in no file, and views point into
  std::vector<MetadataEntry> metadata;  // sorted by key, every key once
  std::vector<TensorInfo> tensors;      // sorted by name, every name once
};

class ModelFile final {
 public:
  // A GGUF file; any part of a split one opens all of them; a folder with safetensors.
  static Result<ModelFile> open(const std::string& path, const GgufLimits& limits = {});
  // The bytes of a whole GGUF file that the caller keeps alive; `name` stands for the path in
  // messages.
  static Result<ModelFile> parse(std::span<const std::byte> bytes, std::string name,
                                 const GgufLimits& limits = {});
  explicit ModelFile(ModelFileContents contents);

  ModelFile(ModelFile&&) noexcept = default;
  ModelFile& operator=(ModelFile&&) noexcept = default;
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;
  ~ModelFile() = default;

  // The path without slashes at its end; of a split file that of its first part.
  const std::string& name() const { return contents_.name; }
  // Of all files together when they were opened; zero after parse().
  const FileIdentity& identity() const { return identity_; }
  uint32_t owner() const { return owner_; }  // user id; of the first file
  // Lets the kernel take back the memory of what was read so far; views stay valid and are read
  // from the files again when touched.
  void release_pages() const;

  // --- metadata -----------------------------------------------------------------------------
  // Sorted by key, every key once.
  std::span<const MetadataEntry> metadata() const { return contents_.metadata; }
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
  std::span<const TensorInfo> tensors() const { return contents_.tensors; }
  const TensorInfo* find_tensor(std::string_view name) const;  // null when absent
  // A missing tensor is an error that names it.
  Result<const TensorInfo*> get_tensor(std::string_view name) const;

 private:
  Result<const MetadataEntry*> require(std::string_view key, MetadataType type) const;
  Result<const MetadataEntry*> require_array(std::string_view key, MetadataType element) const;
  Status wrong_type(const MetadataEntry& entry, std::string_view expected) const;

  ModelFileContents contents_;
  FileIdentity identity_;
  uint32_t owner_ = 0;
};

}  // namespace baton::model_file
