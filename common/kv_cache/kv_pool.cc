#include "common/kv_cache/kv_pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "common/base/check.h"

namespace baton::kv_cache {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr int kPoolSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// What the machine can still give without swapping; nothing when it does not say.
std::optional<size_t> available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("MemAvailable:")) {
      return std::strtoull(line.c_str() + std::strlen("MemAvailable:"), nullptr, 10) << 10;
    }
  }
  return std::nullopt;
}

std::string mib(size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

std::string describe(const std::vector<int>& blocks) {
  std::string text;
  for (const int count : blocks) {
    text += (text.empty() ? "" : " + ") + std::to_string(count);
  }
  return text;
}

// Touches every page now, so that no step pays for a fault and a lack of memory shows at start.
void prefault(std::byte* memory, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) {
    return;
  }
#endif
  constexpr size_t kPage = 4096;
  for (size_t at = 0; at < bytes; at += kPage) {
    memory[at] = std::byte{0};
  }
}

}  // namespace

void gather_pages(void* memory, size_t bytes) {
  constexpr int kCollapse = 25;  // MADV_COLLAPSE, which glibc 2.36 does not name
  madvise(memory, bytes, kCollapse);
}

void KvPool::Unmap::operator()(std::byte* p) const { munmap(p, bytes); }

// A pool without memory.
Result<KvPool> KvPool::shaped(const KvLayout& layout, HeadRange heads,
                              const std::vector<int>& blocks) {
  BATON_RETURN_IF_ERROR(validate(layout));
  for (const int count : blocks) {
    if (count < 1) {
      return invalid_argument("kv pool: " + std::to_string(count) + " blocks, expected at least 1");
    }
  }
  KvPool pool;
  pool.layout_ = layout;
  pool.heads_ = heads;
  pool.blocks_ = blocks;
  pool.block_bytes_ = layout.block_bytes(heads.count());
  pool.offsets_ = {0};
  for (int layer = 0; layer < layout.layers(); ++layer) {
    const auto count = static_cast<size_t>(pool.blocks(layout.group_of(layer)));
    if (count > (std::numeric_limits<size_t>::max() / 4 - pool.bytes()) / pool.block_bytes_) {
      return resource_exhausted("kv pool: " + describe(blocks) + " blocks of " +
                                std::to_string(pool.block_bytes_) + " bytes in each of " +
                                std::to_string(layout.layers()) +
                                " layers do not fit an address space");
    }
    pool.offsets_.push_back(pool.bytes() + count * pool.block_bytes_);
  }
  return pool;
}

// Rounded up, so that the whole pool can lie in huge pages.
size_t KvPool::mapped_bytes() const { return (bytes() + kHugePage - 1) / kHugePage * kHugePage; }

Status KvPool::map_private() {
  const size_t mapped = mapped_bytes();
  void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return resource_exhausted("kv pool: cannot map " + mib(mapped) + ": " + std::strerror(errno));
  }
  memory_ = {static_cast<std::byte*>(memory), Unmap(mapped)};
  return Status();
}

// The file is sealed at its size: nobody who has it can cut it off under the others.
Status KvPool::map_shared() {
  const int fd = memfd_create("baton-kv", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) {
    return unsupported(std::string("kv pool: memfd_create: ") + std::strerror(errno));
  }
  fd_ = FileDescriptor(fd);
  if (ftruncate(fd, static_cast<off_t>(mapped_bytes())) != 0 ||
      fcntl(fd, F_ADD_SEALS, kPoolSeals) != 0) {
    return unsupported("kv pool: a file of " + mib(mapped_bytes()) + ": " + std::strerror(errno));
  }
  return map_file(fd);
}

// At a multiple of the huge page: only there can the file's huge pages be mapped as such.
Status KvPool::map_file(int fd) {
  const size_t mapped = mapped_bytes();
  void* reserved = mmap(nullptr, mapped + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED) {
    return resource_exhausted("kv pool: cannot map " + mib(mapped) + ": " + std::strerror(errno));
  }
  auto* const begin = static_cast<std::byte*>(reserved);
  const size_t head = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  void* memory = mmap(begin + head, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  const int error = errno;
  if (head > 0) {
    munmap(begin, head);
  }
  munmap(begin + head + mapped, kHugePage - head);
  if (memory == MAP_FAILED) {
    munmap(begin + head, mapped);
    return resource_exhausted("kv pool: cannot map " + mib(mapped) + ": " + std::strerror(error));
  }
  memory_ = {static_cast<std::byte*>(memory), Unmap(mapped)};
  // A child that is between fork and exec must not hold it.
  madvise(memory, mapped, MADV_DONTFORK);
  return Status();
}

Result<KvPool> KvPool::create(const KvLayout& layout, HeadRange heads,
                              const std::vector<int>& blocks, Touch touch, Backing backing) {
  BATON_CHECK(layout.groups.empty() || (heads.begin >= 0 && heads.begin < heads.end &&
                                        heads.end <= layout.groups.front().kv_heads),
              "the heads of a rank lie in the model");
  BATON_CHECK(blocks.size() == layout.groups.size(), "a number of blocks for each group");
  BATON_ASSIGN_OR_RETURN(KvPool pool, shaped(layout, heads, blocks));
  const size_t mapped = pool.mapped_bytes();
  const std::optional<size_t> available = available_memory_bytes();
  if (available && mapped > *available) {
    return resource_exhausted("kv pool: " + describe(blocks) + " blocks need " + mib(mapped) +
                              ", the machine has " + mib(*available) + " available");
  }
  BATON_RETURN_IF_ERROR(backing == Backing::kShared ? pool.map_shared() : pool.map_private());
  // Wishes: works without. Large pages would make who comes first pay for blocks of others.
  madvise(pool.memory_.get(), mapped, touch == Touch::kNow ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  if (touch == Touch::kNow) {
    prefault(pool.memory_.get(), mapped);
    if (backing == Backing::kShared) {
      gather_pages(pool.memory_.get(), mapped);
    }
  }
  return pool;
}

Result<KvPool> KvPool::attach(const KvLayout& layout, HeadRange heads,
                              const std::vector<int>& blocks, int fd) {
  if (layout.groups.empty() || blocks.size() != layout.groups.size() || heads.begin < 0 ||
      heads.begin >= heads.end || heads.end > layout.groups.front().kv_heads) {
    return incompatible("kv pool of a peer: impossible shape");
  }
  Result<KvPool> pool = shaped(layout, heads, blocks);
  if (!pool.ok()) {
    return incompatible("kv pool of a peer: " + pool.status().message());
  }
  struct stat info{};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_size != static_cast<off_t>(pool->mapped_bytes()) ||
      (fcntl(fd, F_GET_SEALS) & kPoolSeals) != kPoolSeals) {
    return incompatible("kv pool of a peer: the file is none of " + mib(pool->mapped_bytes()));
  }
  BATON_RETURN_IF_ERROR(pool->map_file(fd));
  return pool;
}

size_t KvPool::group_bytes() const {
  return size_t{kGroupTokens} * layout_.groups.front().k_dim * sizeof(uint16_t);
}

std::byte* KvPool::group(int layer, BlockId id, bool value, int head, int group) const {
  const int groups = layout_.block_tokens / kGroupTokens;
  const size_t index = size_t(head - heads_.begin) * groups + group;
  return block(layer, id) + (value ? block_bytes_ / 2 : 0) + index * group_bytes();
}

void KvPool::zero_values(int layer, BlockId id) const {
  const size_t half = block_bytes_ / 2;
  std::memset(block(layer, id) + half, 0, half);
}

void KvPool::copy_block(int layer, BlockId from, BlockId to) const {
  std::memcpy(block(layer, to), block(layer, from), block_bytes_);
}

void KvPool::fill(uint16_t pattern) const {
  auto* values = reinterpret_cast<uint16_t*>(memory_.get());
  std::fill(values, values + bytes() / sizeof(uint16_t), pattern);
}

}  // namespace baton::kv_cache
