#include "common/model_file/packed_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/check.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace baton::model_file {
namespace {

constexpr std::array<char, 8> kMagic = {'B', 'A', 'T', 'O', 'N', 'P', 'K', '\0'};
constexpr uint64_t kVersion = 1;
constexpr size_t kHashedPiece = size_t{4} << 20;
constexpr size_t kWrittenPiece = size_t{16} << 20;
constexpr uint64_t kRoomLeft = uint64_t{256} << 20;  // on the disk, for others

// The first bytes of the file; little endian like the content.
struct Header {
  std::array<char, 8> magic;
  uint64_t version;
  uint64_t layout;
  uint64_t bytes;
  uint64_t content_hash;
  uint64_t model_hash_hi;
  uint64_t model_hash_lo;
  uint64_t check;  // of all above
};
// At kNoteAt: rewritten in place, so it has a check of its own.
struct Note {
  FileIdentity model;
  uint64_t check;
};
constexpr off_t kNoteAt = 512;
static_assert(sizeof(Header) == 64 && sizeof(Note) == 40);
static_assert(sizeof(Header) <= kNoteAt && kNoteAt + sizeof(Note) <= PackedFile::kContentAt);

uint64_t check_of(const Header& header) { return XXH3_64bits(&header, offsetof(Header, check)); }
uint64_t check_of(const Note& note) { return XXH3_64bits(&note, offsetof(Note, check)); }

uint64_t hash_content(std::span<const std::byte> content, const ParallelFor& parallel_for) {
  std::vector<uint64_t> pieces((content.size() + kHashedPiece - 1) / kHashedPiece);
  parallel_for(static_cast<int>(pieces.size()), [&](int i) {
    const size_t begin = static_cast<size_t>(i) * kHashedPiece;
    const auto piece = content.subspan(begin, std::min(kHashedPiece, content.size() - begin));
    pieces[static_cast<size_t>(i)] = XXH3_64bits(piece.data(), piece.size());
  });
  return XXH3_64bits(pieces.data(), pieces.size() * sizeof(uint64_t));
}

std::string error_text(int error) { return std::generic_category().message(error); }

Status cannot_write(const std::string& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return {full ? StatusCode::kResourceExhausted : StatusCode::kInvalidArgument,
          path + ": cannot be written: " + error_text(error)};
}

Status write_all(int fd, const std::string& path, std::span<const std::byte> bytes, off_t at) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd, bytes.data(), std::min(bytes.size(), kWrittenPiece), at);
    if (written < 0 && errno != EINTR) {
      return cannot_write(path, errno);
    }
    if (written > 0) {
      bytes = bytes.subspan(static_cast<size_t>(written));
      at += written;
    }
  }
  return Status();
}

// Whether the name still leads to the open file: another writer may have renamed or removed it.
bool same_file(int fd, const std::string& path) {
  struct stat own = {};
  struct stat named = {};
  return ::fstat(fd, &own) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         own.st_ino == named.st_ino && own.st_dev == named.st_dev;
}

Status reserve_room(int fd, const std::string& path, uint64_t bytes) {
  struct statvfs disk = {};
  if (::fstatvfs(fd, &disk) == 0 && disk.f_frsize > 0) {
    const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
    if (free < bytes + kRoomLeft) {
      return resource_exhausted(path + ": " + std::to_string(bytes >> 20) + " MiB are needed and " +
                                std::to_string(free >> 20) + " MiB are free, of which " +
                                std::to_string(kRoomLeft >> 20) + " MiB are left for others");
    }
  }
  // Not every file system can reserve; there a full disk shows when it is written.
  if (::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) != 0 && errno != EOPNOTSUPP) {
    return cannot_write(path, errno);
  }
  return Status();
}

Status check_header(const Header& header, const PackedKey& key, size_t file_bytes) {
  if (header.check != check_of(header) || header.magic != kMagic) {
    return invalid_argument("its head is damaged");
  }
  if (header.version != kVersion || header.layout != key.layout) {
    return invalid_argument("it was made by another version or for another layout");
  }
  if (header.bytes != key.bytes || file_bytes != PackedFile::kContentAt + key.bytes) {
    return invalid_argument("it is not complete");
  }
  return Status();
}

}  // namespace

void serial_for(int n, const std::function<void(int)>& body) {
  for (int i = 0; i < n; ++i) {
    body(i);
  }
}

uint64_t packed_layout(std::span<const uint64_t> meaning) {
  return XXH3_64bits(meaning.data(), meaning.size_bytes());
}

std::string packed_file_path(const std::string& folder, const std::string& model_path,
                             std::string_view variant) {
  namespace fs = std::filesystem;
  const fs::path model(model_path);
  const fs::path parent = model.has_parent_path() ? model.parent_path() : fs::path(".");
  std::string name = model.filename().string();
  if (fs::path(folder).lexically_normal() != parent.lexically_normal()) {
    // Models of the same name may lie in several folders.
    std::error_code unknown;
    const fs::path absolute = fs::weakly_canonical(parent, unknown);
    const std::string& text = unknown ? parent.string() : absolute.string();
    name += "." + to_hex(U128{0, XXH3_64bits(text.data(), text.size())}).substr(16);
  }
  return (fs::path(folder) / (name + "." + std::string(variant) + ".packed")).string();
}

Result<PackedFile> PackedFile::open(const std::string& path, const PackedKey& key,
                                    uint32_t model_owner, const ParallelFor& parallel_for,
                                    const std::optional<U128>& model_hash) {
  PackedFile file;
  BATON_ASSIGN_OR_RETURN(file.mapping_, MappedFile::open(path, MappedFile::Sharing::kShared));
  const uint32_t owner = file.mapping_.owner();
  if (owner != 0 && owner != ::geteuid() && owner != model_owner) {
    return invalid_argument(path + ": it belongs to another user");
  }
  const std::span<const std::byte> bytes = file.mapping_.bytes();
  if (bytes.size() < kContentAt) {
    return invalid_argument(path + ": it is not complete");
  }
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const Status checked = check_header(header, key, bytes.size());
  if (!checked.ok()) {
    return checked.with_context(path);
  }
  file.model_hash_ = {header.model_hash_hi, header.model_hash_lo};
  if (model_hash && *model_hash != file.model_hash_) {
    return invalid_argument(path + ": it was made from another model");
  }
  if (hash_content(file.content(), parallel_for) != header.content_hash) {
    return invalid_argument(path + ": its content is damaged");
  }
  Note note;
  std::memcpy(&note, bytes.data() + kNoteAt, sizeof(note));
  if (note.check == check_of(note)) {
    file.model_ = note.model;
  }
  return file;
}

void PackedFile::note_model(const std::string& path, const FileIdentity& model) {
  Note note{model, 0};
  note.check = check_of(note);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd >= 0) {
    (void)!::pwrite(fd, &note, sizeof(note), kNoteAt);
    ::close(fd);
  }
}

Result<PackedFileWriter> PackedFileWriter::create(const std::string& path, const PackedKey& key) {
  const std::string part = path + ".part";
  std::error_code ignored;  // open() says what is wrong with the folder
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  const int fd = ::open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) {
    return cannot_write(part, errno);
  }
  const int refused = ::flock(fd, LOCK_EX | LOCK_NB) != 0 ? errno : 0;
  if (refused != 0 || !same_file(fd, part)) {
    ::close(fd);
    return refused == 0 || refused == EWOULDBLOCK
               ? unavailable(part + ": another process is writing it")
               : cannot_write(part, refused);
  }
  PackedFileWriter writer(path, key, fd);
  // What a writer that died has left says nothing.
  if (::ftruncate(fd, 0) != 0) {
    return cannot_write(part, errno);
  }
  BATON_RETURN_IF_ERROR(reserve_room(fd, part, PackedFile::kContentAt + key.bytes));
  return writer;
}

PackedFileWriter::PackedFileWriter(PackedFileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      key_(other.key_),
      fd_(std::exchange(other.fd_, -1)),
      written_(other.written_) {}

PackedFileWriter::~PackedFileWriter() {
  if (fd_ >= 0) {
    // Still locked, so it is ours to remove.
    ::unlink((path_ + ".part").c_str());
    ::close(fd_);
  }
}

Status PackedFileWriter::append(std::span<const std::byte> bytes) {
  BATON_CHECK(bytes.size() <= key_.bytes - written_, "more content than announced");
  BATON_RETURN_IF_ERROR(write_all(fd_, path_ + ".part", bytes,
                                  static_cast<off_t>(PackedFile::kContentAt + written_)));
  written_ += bytes.size();
  return Status();
}

Status PackedFileWriter::finish(U128 model_hash, const ParallelFor& parallel_for) {
  BATON_CHECK(written_ == key_.bytes, "less content than announced");
  const std::string part = path_ + ".part";
  BATON_ASSIGN_OR_RETURN(const MappedFile mapping,
                         MappedFile::open(part, MappedFile::Sharing::kShared));
  Header header{
      .magic = kMagic,
      .version = kVersion,
      .layout = key_.layout,
      .bytes = key_.bytes,
      .content_hash = hash_content(mapping.bytes().subspan(PackedFile::kContentAt), parallel_for),
      .model_hash_hi = model_hash.hi,
      .model_hash_lo = model_hash.lo,
      .check = 0};
  header.check = check_of(header);
  BATON_RETURN_IF_ERROR(write_all(fd_, part, std::as_bytes(std::span(&header, 1)), 0));
  if (::fsync(fd_) != 0 || ::rename(part.c_str(), path_.c_str()) != 0) {
    return cannot_write(part, errno);
  }
  ::close(std::exchange(fd_, -1));
  return Status();
}

}  // namespace baton::model_file
