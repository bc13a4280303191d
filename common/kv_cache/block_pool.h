#pragma once

// Who owns which block of a cache group: reference counts, the free list, and the prefix cache
// (full blocks found by chained hash, least recently used first out). Owned and used by one thread,
// the worker loop; no locks. Memory is elsewhere (kv_pool.h), the groups together in block_pools.h.
//
// A block is in exactly one state:
//   free         nobody has it, its contents mean nothing
//   active       referenced by sequences (a count; shared through prefix hits and siblings)
//   cached       in the prefix index, referenced by nobody; evicted when free blocks run out
//   reserved     promised to an incoming transfer, written by the transfer thread only
//   quarantined  of an aborted or expired transfer, until its writer is known to be quiet
// cached blocks count as available: available() = free + cached.

#include <cstdint>
#include <list>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"

namespace baton::kv_cache {

class BlockPool;

// References on an ordered list of blocks, given back on destruction. Places at its front may be
// empty (kNoBlock): what a window has left behind. Move-only; lives no longer than its pool and
// stays on the pool's thread.
class BlockLease {
 public:
  BlockLease() = default;
  BlockLease(BlockLease&& other) noexcept;
  BlockLease& operator=(BlockLease&& other) noexcept;
  ~BlockLease() { release(); }

  std::span<const BlockId> ids() const { return ids_; }
  size_t size() const { return ids_.size(); }
  bool empty() const { return ids_.empty(); }
  void append(BlockLease&& more);  // the blocks of `more` follow ours
  BlockLease share() const;        // one more reference on each block
  void truncate(size_t count);     // gives back all but the first `count`
  // Gives back the first `count` places, which stay as empty ones; places that are not there yet
  // are added, so that size() >= count.
  void vacate_front(size_t count);
  size_t held() const { return ids_.size() - vacant_; }  // places that are not empty
  // Puts a private copy in place of a shared block: the caller plans the copy of the contents.
  void replace(size_t index, BlockLease&& single);
  void release();

 private:
  friend class BlockPool;
  BlockLease(BlockPool* pool, std::vector<BlockId> ids) : pool_(pool), ids_(std::move(ids)) {}
  BlockPool* pool_ = nullptr;
  std::vector<BlockId> ids_;
  size_t vacant_ = 0;  // empty places at the front
};

struct BlockCounts {
  int free = 0, active = 0, cached = 0, reserved = 0, quarantined = 0;
};

class BlockPool {
 public:
  struct Options {
    int blocks = 0;
    int block_tokens = 32;
    bool prefix_cache = true;
  };
  explicit BlockPool(const Options& options);
  // Every lease must be gone.
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  int block_tokens() const;
  int total() const;
  int available() const;
  BlockCounts counts() const;
  int blocks_for(int tokens) const;  // ceil

  // `count` blocks with one reference each; evicts cached blocks as needed. resource_exhausted, and
  // nothing changed, when available() < count. Contents are those of the last owner.
  Result<BlockLease> allocate(int count);
  bool shared(BlockId id) const;  // more than one reference, or in the index: copy before writing

  // Marks blocks of a lease (one reference each, none in the index) as reserved / quarantined /
  // active; only the counts of states change, the lease keeps them. A block goes back to free when
  // its lease ends, whatever its mark: the owner of a quarantined lease keeps it until the writer
  // is known to be quiet.
  void mark_reserved(const BlockLease& lease);
  void mark_quarantined(const BlockLease& lease);
  void mark_active(const BlockLease& lease);

  // The index; block_pools.h looks prefixes up and publishes them. The block that holds `tokens`
  // after `parent`; kNoBlock if none, or if only the hash is equal.
  BlockId find(const U128& hash, const U128& parent, std::span<const TokenId> tokens) const;
  // The block after `parent` that begins with the most of `tokens`, and how many they are; kNoBlock
  // and 0 if none begins with any.
  struct Beginning {
    BlockId id = kNoBlock;
    int tokens = 0;
  };
  Beginning find_beginning(const U128& parent, std::span<const TokenId> tokens) const;
  // One reference more on each; empty places at the front stay so.
  BlockLease hold(std::vector<BlockId> ids);
  // Enters a full block that an active lease holds, unless its content is there already.
  void enter(BlockId id, const U128& hash, const U128& parent, std::span<const TokenId> tokens);

  // Empties the index: cached blocks become free, blocks in use stay but are found no more.
  void drop_cache();

  uint64_t evictions() const { return evictions_; }

  // Hashes that entered or left the index since the last call, for the router's view (hints),
  // oldest first. At most `limit` of each kind; what does not fit is dropped and `overflow` is set.
  struct Events {
    std::vector<U128> added, removed;
    bool overflow = false;
  };
  Events take_events(size_t limit);

 private:
  friend class BlockLease;
  enum class State : uint8_t { kFree, kActive, kCached, kReserved, kQuarantined };
  void add_reference(BlockId id);
  void drop_reference(BlockId id);
  void mark(const BlockLease& lease, State state);
  void set_state(BlockId id, State state);
  int& count_of(State state);
  void evict_oldest();
  void remove_from_index(BlockId id);
  void note_event(std::vector<U128>& list, const U128& hash);

  struct Block {
    State state = State::kFree;
    int references = 0;
    bool indexed = false;
    U128 hash;  // these three of an indexed block
    U128 parent;
    std::vector<TokenId> tokens;
    std::list<BlockId>::iterator lru;  // of a cached block
  };
  // Blocks of the index by parent and then by tokens, so that those with a common beginning are
  // neighbours.
  struct Content {
    const U128& parent;
    std::span<const TokenId> tokens;
  };
  struct ByContent {
    using is_transparent = void;
    const BlockPool* pool;
    Content of(BlockId id) const { return {pool->blocks_[id].parent, pool->blocks_[id].tokens}; }
    static const Content& of(const Content& content) { return content; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return before(of(a), of(b));
    }
    static bool before(const Content& a, const Content& b);
  };
  Options options_;
  std::vector<Block> blocks_;
  std::vector<BlockId> free_;
  std::list<BlockId> lru_;  // cached blocks, oldest first
  std::unordered_map<U128, BlockId> index_;
  std::set<BlockId, ByContent> by_content_{ByContent{this}};  // the same blocks
  BlockCounts counts_;
  uint64_t evictions_ = 0;
  Events events_;
};

}  // namespace baton::kv_cache
