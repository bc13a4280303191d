#include "common/kv_cache/kv_pool.h"

#include <sys/mman.h>

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

void KvPool::Unmap::operator()(std::byte* p) const { munmap(p, bytes); }

Result<KvPool> KvPool::create(const KvLayout& layout, HeadRange heads,
                              const std::vector<int>& blocks, Touch touch) {
  BATON_RETURN_IF_ERROR(validate(layout));
  BATON_CHECK(
      heads.begin >= 0 && heads.begin < heads.end && heads.end <= layout.groups.front().kv_heads,
      "the heads of a rank lie in the model");
  BATON_CHECK(blocks.size() == layout.groups.size(), "a number of blocks for each group");
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
  std::string text;
  for (const int count : blocks) {
    text += (text.empty() ? "" : " + ") + std::to_string(count);
  }
  for (int layer = 0; layer < layout.layers(); ++layer) {
    const auto count = static_cast<size_t>(pool.blocks(layout.group_of(layer)));
    if (count > (std::numeric_limits<size_t>::max() / 4 - pool.bytes()) / pool.block_bytes_) {
      return resource_exhausted("kv pool: " + text + " blocks of " +
                                std::to_string(pool.block_bytes_) + " bytes in each of " +
                                std::to_string(layout.layers()) +
                                " layers do not fit an address space");
    }
    pool.offsets_.push_back(pool.bytes() + count * pool.block_bytes_);
  }
  // Rounded up, so that the whole pool can lie in huge pages.
  const size_t mapped = (pool.bytes() + kHugePage - 1) / kHugePage * kHugePage;
  const std::optional<size_t> available = available_memory_bytes();
  if (available && mapped > *available) {
    return resource_exhausted("kv pool: " + text + " blocks need " + mib(mapped) +
                              ", the machine has " + mib(*available) + " available");
  }
  void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return resource_exhausted("kv pool: cannot map " + mib(mapped) + ": " + std::strerror(errno));
  }
  pool.memory_ =
      std::unique_ptr<std::byte[], Unmap>(static_cast<std::byte*>(memory), Unmap(mapped));
  // Wishes: works without. Large pages would make who comes first pay for blocks of others.
  madvise(memory, mapped, touch == Touch::kNow ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  if (touch == Touch::kNow) {
    prefault(pool.memory_.get(), mapped);
  }
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
