#include "common/model_file/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace baton::model_file {
namespace {

class Descriptor final {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string error_text(int error) {
  char buffer[128] = {};
  return ::strerror_r(error, buffer, sizeof(buffer));
}

// What people mean by a folder: a checkout of a model, or the folder that its file lies in.
Status directory_refused(const std::string& path) {
  std::error_code error;
  std::filesystem::directory_iterator entries(path, error);
  std::string gguf;
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    if (name.ends_with(".safetensors")) {
      return unsupported(path +
                         ": is a folder of safetensors; convert it to GGUF (convert_hf_to_gguf.py "
                         "of llama.cpp) and give the file");
    }
    gguf = name.ends_with(".gguf") && (gguf.empty() || name < gguf) ? name : gguf;
  }
  return invalid_argument(path + ": is a directory; give the path of a .gguf file" +
                          (gguf.empty() ? "" : ", for example " + path + "/" + gguf));
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  // Non-blocking, so that a named pipe given by mistake is an error and not a hang.
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) {
      return not_found(path + ": no such file; give the path of a .gguf file");
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
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) {
    return internal_error(path + ": cannot be mapped: " + error_text(errno));
  }
  return MappedFile(static_cast<const std::byte*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
}

void MappedFile::release_pages() const {
  if (data_ != nullptr) {
    // Advice: a failure costs memory, nothing else.
    (void)::madvise(const_cast<std::byte*>(data_), size_, MADV_DONTNEED);
  }
}

}  // namespace baton::model_file
