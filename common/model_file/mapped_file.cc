#include "common/model_file/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/file_descriptor.h"

namespace baton::model_file {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// A boundary of 2 MiB in memory, where the file has one too, lets the kernel map huge pages.
void* map_shared(int fd, size_t size) {
  void* room = ::mmap(nullptr, size + kHugePage, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) {
    return MAP_FAILED;
  }
  auto* const begin = static_cast<std::byte*>(room);
  std::byte* const aligned =
      begin + (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  void* const data = ::mmap(aligned, size, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
  if (data == MAP_FAILED) {
    ::munmap(room, size + kHugePage);
    return MAP_FAILED;
  }
  (void)::madvise(data, size, MADV_HUGEPAGE);  // a wish: works without
  constexpr size_t kPage = 4096;
  std::byte* const end = aligned + (size + kPage - 1) / kPage * kPage;
  if (aligned > begin) {
    ::munmap(begin, static_cast<size_t>(aligned - begin));
  }
  if (end < begin + size + kHugePage) {
    ::munmap(end, static_cast<size_t>(begin + size + kHugePage - end));
  }
  return data;
}

std::string error_text(int error) {
  char buffer[128] = {};
  return ::strerror_r(error, buffer, sizeof(buffer));
}

// What people mean by a folder: the one that the model's file lies in.
Status directory_refused(const std::string& path) {
  std::error_code error;
  std::filesystem::directory_iterator entries(path, error);
  std::string gguf;
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    gguf = name.ends_with(".gguf") && (gguf.empty() || name < gguf) ? name : gguf;
  }
  return invalid_argument(path +
                          ": is a directory without safetensors; give the path of a .gguf file" +
                          (gguf.empty() ? "" : ", for example " + path + "/" + gguf));
}

// splitmix64 (https://prng.di.unimi.it/splitmix64.c).
uint64_t mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

}  // namespace

FileIdentity combined_identity(std::span<const FileIdentity> files) {
  if (files.size() == 1) {
    return files.front();
  }
  FileIdentity all;
  for (const FileIdentity& file : files) {
    all.bytes += file.bytes;
    all.modified_ns = std::max(all.modified_ns, file.modified_ns);
    all.changed_ns = std::max(all.changed_ns, file.changed_ns);
    for (const uint64_t value : {file.bytes, static_cast<uint64_t>(file.modified_ns),
                                 static_cast<uint64_t>(file.changed_ns), file.inode}) {
      all.inode = mixed(all.inode + 0x9E3779B97F4A7C15ull + value);
    }
  }
  return all;
}

Result<MappedFile> MappedFile::open(const std::string& path, Sharing sharing) {
  // Non-blocking, so that a named pipe given by mistake is an error and not a hang.
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) {
      return not_found(path + ": no such file; give the path of a .gguf file or a model folder");
    }
    return invalid_argument(path + ": cannot be opened for reading: " + error_text(error));
  }
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) {
    return internal_error(path + ": fstat failed: " + error_text(errno));
  }
  if (S_ISDIR(info.st_mode)) {
    return directory_refused(path);
  }
  if (!S_ISREG(info.st_mode)) {
    return invalid_argument(path + ": is not a regular file; a model file must be mappable");
  }
  if (info.st_size == 0) {
    return invalid_argument(path + ": is empty; was the download interrupted?");
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* data = sharing == Sharing::kShared
                   ? map_shared(fd.get(), size)
                   : ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) {
    return internal_error(path + ": cannot be mapped: " + error_text(errno));
  }
  return MappedFile(static_cast<const std::byte*>(data),
                    {.bytes = size,
                     .modified_ns = nanoseconds(info.st_mtim),
                     .changed_ns = nanoseconds(info.st_ctim),
                     .inode = info.st_ino},
                    info.st_uid);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      identity_(std::exchange(other.identity_, {})),
      owner_(other.owner_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(identity_, other.identity_);
  std::swap(owner_, other.owner_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), identity_.bytes);
  }
}

void MappedFile::release_pages() const {
  if (data_ != nullptr) {
    // Advice: a failure costs memory, nothing else.
    (void)::madvise(const_cast<std::byte*>(data_), identity_.bytes, MADV_DONTNEED);
  }
}

}  // namespace baton::model_file
