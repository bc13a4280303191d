#pragma once

// A whole file mapped read-only. Move-only; unmapped by the destructor.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/status.h"

namespace baton::model_file {

// What stays the same as long as nobody touches a file, as far as the system can tell. `changed_ns`
// moves with every write whatever else is set back.
struct FileIdentity {
  uint64_t bytes = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;
  uint64_t inode = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// Of several files as if they were one: equal as long as nobody touches any of them.
FileIdentity combined_identity(std::span<const FileIdentity> files);

class MappedFile final {
 public:
  // kShared lies on a 2 MiB boundary and asks for huge pages; the file may be rewritten in place.
  enum class Sharing : uint8_t { kPrivate, kShared };

  MappedFile() = default;
  // not_found: no such file; invalid_argument: not a regular file, empty, not readable.
  static Result<MappedFile> open(const std::string& path, Sharing sharing = Sharing::kPrivate);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, identity_.bytes}; }
  const FileIdentity& identity() const { return identity_; }  // when it was opened
  uint32_t owner() const { return owner_; }                   // user id
  // Drops the process's pages of the file; they come back from the page cache when touched.
  void release_pages() const;

 private:
  MappedFile(const std::byte* data, const FileIdentity& identity, uint32_t owner)
      : data_(data), identity_(identity), owner_(owner) {}

  const std::byte* data_ = nullptr;
  FileIdentity identity_;
  uint32_t owner_ = 0;
};

}  // namespace baton::model_file
