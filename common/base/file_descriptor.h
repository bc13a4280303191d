#pragma once

// The owner of an open file, socket or event: closes it at its end.

#include <unistd.h>

#include <utility>

namespace baton {

// Movable. Not thread-safe.
class FileDescriptor final {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}  // negative: none, as the system's calls say it
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }

  int get() const { return fd_; }  // -1: none
  bool open() const { return fd_ >= 0; }
  void reset() { const FileDescriptor closed = std::move(*this); }

 private:
  int fd_ = -1;
};

}  // namespace baton
