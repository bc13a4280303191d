#pragma once

// The memory of one rank's KV blocks: [layer][block][...] as layout.h says, one allocation, made
// at start. A layer has the blocks of its cache group; ids count within a group. Block ids are the
// same on all ranks of a worker. Who may touch a block
// when is decided by the worker loop (block_pool.h); the pool itself is only memory. Views stay
// valid when it is moved.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/file_descriptor.h"
#include "common/base/ids.h"
#include "common/kv_cache/layout.h"

namespace baton::kv_cache {

// When the pages of a pool are touched for the first time.
enum class Touch : uint8_t {
  kNow,      // before create() returns
  kByOwner,  // by whoever uses them first (prefault.h)
};

// Whether other processes can be let in.
enum class Backing : uint8_t {
  kPrivate,
  kShared,  // a file without a name (memfd) of fixed size, gone with the last process that has it
};

// Gathers memory of a shared pool, from a multiple of 2 MiB on, into large pages, which the kernel
// does not do by itself. A wish: works without (Linux before 6.1).
void gather_pages(void* memory, size_t bytes);

class KvPool {
 public:
  // Fails with resource_exhausted when the memory cannot be had, with unsupported when there is no
  // file for kShared, and as validate(layout) does. `heads` lies in the layout's heads; `blocks` of
  // each group.
  static Result<KvPool> create(const KvLayout& layout, HeadRange heads,
                               const std::vector<int>& blocks, Touch touch = Touch::kNow,
                               Backing backing = Backing::kPrivate);
  // Maps the file of another process's pool, for writing. incompatible unless it is one of such a
  // shape: shape and file come from outside. Keeps the open file description of `fd`, not `fd`.
  static Result<KvPool> attach(const KvLayout& layout, HeadRange heads,
                               const std::vector<int>& blocks, int fd);

  const KvLayout& layout() const { return layout_; }
  HeadRange heads() const { return heads_; }
  int blocks(int group = 0) const { return blocks_[static_cast<size_t>(group)]; }
  const std::vector<int>& group_blocks() const { return blocks_; }
  int layers() const { return static_cast<int>(offsets_.size()) - 1; }
  size_t block_bytes() const { return block_bytes_; }  // of one layer
  size_t bytes() const { return offsets_.back(); }
  // Of kShared, else -1. Lives as long as the pool.
  int shared_fd() const { return fd_.get(); }
  std::byte* layer_base(int layer) const {
    return memory_.get() + offsets_[static_cast<size_t>(layer)];
  }
  size_t layer_bytes(int layer) const {
    return offsets_[static_cast<size_t>(layer) + 1] - offsets_[static_cast<size_t>(layer)];
  }
  std::byte* block(int layer, BlockId id) const {
    return layer_base(layer) + size_t{id} * block_bytes_;
  }

  // A contiguous piece of memory in a block: K or V of heads [head, head + 1) and one group of 32
  // tokens. `head` counts the model's heads and must lie in heads().
  std::byte* group(int layer, BlockId id, bool value, int head, int group) const;
  size_t group_bytes() const;

  // Zeroes the V half of a block in a layer: 0 * NaN is NaN, so a block is cleaned before its first
  // use by a new owner (allocation on a prefill worker, GRANT on a decode worker).
  void zero_values(int layer, BlockId id) const;
  // One layer of `from` into `to`, another block.
  void copy_block(int layer, BlockId from, BlockId to) const;
  // Fills everything with one 16-bit pattern (tests start from 0xFFFF).
  void fill(uint16_t pattern) const;

 private:
  struct Unmap {
    Unmap() : bytes(0) {}
    explicit Unmap(size_t mapped) : bytes(mapped) {}
    size_t bytes;
    void operator()(std::byte* p) const;
  };
  KvPool() = default;
  static Result<KvPool> shaped(const KvLayout& layout, HeadRange heads,
                               const std::vector<int>& blocks);
  size_t mapped_bytes() const;
  Status map_private();
  Status map_shared();
  Status map_file(int fd);

  KvLayout layout_;
  HeadRange heads_;
  std::vector<int> blocks_;      // of each group
  std::vector<size_t> offsets_;  // of each layer, and the end
  size_t block_bytes_ = 0;
  std::unique_ptr<std::byte[], Unmap> memory_;
  FileDescriptor fd_;  // of a pool that lets others in
};

}  // namespace baton::kv_cache
