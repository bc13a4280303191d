#pragma once

// Weights in the form that the kernels read, kept in a file so that a start maps them and packs
// nothing. This is the file and how it is written and checked; what lies in it is the business of
// common/model. The format: docs/formats.md, "Packed weights".
//
// A file that is cut short, damaged, of another version, of another model or of another layout is
// an error to open() and is then written anew, whole, under another name, and renamed. So a reader
// sees a whole file or none, and one that is mapped stays what it is while it is replaced. Nobody
// may write into it otherwise. All functions block on the disk.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/model_file/mapped_file.h"

namespace baton::model_file {

// Runs body(0) .. body(n-1), in any order and on any threads, and returns when all are done.
using ParallelFor = std::function<void(int n, const std::function<void(int)>& body)>;
void serial_for(int n, const std::function<void(int)>& body);

// What the content must be: its size, and a number that stands for the meaning of every byte.
struct PackedKey {
  uint64_t layout = 0;
  uint64_t bytes = 0;
};
uint64_t packed_layout(std::span<const uint64_t> meaning);

// MODEL.VARIANT.packed beside the model, with a hash of the model's folder in other folders.
std::string packed_file_path(const std::string& folder, const std::string& model_path,
                             std::string_view variant);

class PackedFile final {
 public:
  static constexpr size_t kContentAt = 4096;  // in the file

  // Reads and checks all of it: ten gigabytes a second and thread when it is cached. not_found:
  // there is none; invalid_argument: it must not be used, and why. `model_owner`: user id of the
  // model's owner, whose files are trusted like those of root and of this process. `model_hash`:
  // where it is known, a file of another model is refused before its content is read.
  static Result<PackedFile> open(const std::string& path, const PackedKey& key,
                                 uint32_t model_owner, const ParallelFor& parallel_for,
                                 const std::optional<U128>& model_hash = std::nullopt);

  // Shared, read-only, page-aligned; on a 2 MiB boundary less kContentAt.
  std::span<const std::byte> content() const { return mapping_.bytes().subspan(kContentAt); }
  U128 model_hash() const { return model_hash_; }
  // The model file that it was last found to belong to; nothing where that is not sure.
  const std::optional<FileIdentity>& model() const { return model_; }
  // Writes that down for the next start. Failures cost the next start a hash of the model.
  static void note_model(const std::string& path, const FileIdentity& model);

 private:
  PackedFile() = default;

  MappedFile mapping_;
  U128 model_hash_;
  std::optional<FileIdentity> model_;
};

// Writes PATH.part, locked against other writers, and renames it. What is not finished is removed.
class PackedFileWriter final {
 public:
  // unavailable: another process writes it; resource_exhausted: no room; invalid_argument: it
  // cannot be written there.
  static Result<PackedFileWriter> create(const std::string& path, const PackedKey& key);
  PackedFileWriter(PackedFileWriter&& other) noexcept;
  PackedFileWriter& operator=(PackedFileWriter&&) = delete;
  PackedFileWriter(const PackedFileWriter&) = delete;
  PackedFileWriter& operator=(const PackedFileWriter&) = delete;
  ~PackedFileWriter();

  // The next bytes of the content.
  Status append(std::span<const std::byte> bytes);
  // Precondition: key.bytes were appended.
  Status finish(U128 model_hash, const ParallelFor& parallel_for);

 private:
  PackedFileWriter(std::string path, const PackedKey& key, int fd)
      : path_(std::move(path)), key_(key), fd_(fd) {}

  std::string path_;
  PackedKey key_;
  int fd_ = -1;
  uint64_t written_ = 0;
};

}  // namespace baton::model_file
