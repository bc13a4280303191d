#pragma once

// A whole file mapped read-only and private. Move-only; unmapped by the destructor.

#include <cstddef>
#include <span>
#include <string>

#include "common/base/status.h"

namespace baton::model_file {

class MappedFile final {
 public:
  MappedFile() = default;
  // not_found: no such file; invalid_argument: not a regular file, empty, not readable.
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Drops the process's pages of the file; they come back from the page cache when touched.
  void release_pages() const;

 private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}

  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace baton::model_file
