#include "kv_transfer/data_path.h"

#include <algorithm>
#include <cstring>

namespace baton::kv_transfer {
namespace {

// A single copy of 2 MiB, which the C library makes in another way, reaches 17 GB/s where pieces of
// 32 KiB reach 20.
constexpr size_t kCopyBytes = size_t{32} << 10;

}  // namespace

void copy_slices(std::span<const IoSlice> from, std::span<const IoSlice> to, size_t limit) {
  size_t target = 0;
  size_t offset = 0;
  for (IoSlice source : from) {
    while (source.bytes > 0 && limit > 0) {
      const size_t bytes = std::min({source.bytes, to[target].bytes - offset, limit, kCopyBytes});
      std::memcpy(to[target].data + offset, source.data, bytes);
      source.data += bytes;
      source.bytes -= bytes;
      limit -= bytes;
      offset += bytes;
      if (offset == to[target].bytes) {
        ++target;
        offset = 0;
      }
    }
  }
}

size_t total_bytes(std::span<const IoSlice> slices) {
  size_t sum = 0;
  for (const IoSlice& slice : slices) {
    sum += slice.bytes;
  }
  return sum;
}

}  // namespace baton::kv_transfer
