#include "common/kv_cache/block_pool.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"

namespace baton::kv_cache {

namespace {

// Events that nobody takes must not grow without bound; they are hints.
constexpr size_t kMaxPendingEvents = size_t{1} << 16;

}  // namespace

BlockLease::BlockLease(BlockLease&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      ids_(std::exchange(other.ids_, {})),
      vacant_(std::exchange(other.vacant_, 0)) {}

BlockLease& BlockLease::operator=(BlockLease&& other) noexcept {
  if (this != &other) {
    release();
    pool_ = std::exchange(other.pool_, nullptr);
    ids_ = std::exchange(other.ids_, {});
    vacant_ = std::exchange(other.vacant_, 0);
  }
  return *this;
}

void BlockLease::append(BlockLease&& more) {
  if (more.ids_.empty()) {
    return;
  }
  BATON_CHECK(pool_ == nullptr || pool_ == more.pool_, "leases of one pool");
  BATON_CHECK(more.vacant_ == 0, "empty places lie at the front");
  pool_ = more.pool_;
  ids_.insert(ids_.end(), more.ids_.begin(), more.ids_.end());
  more.ids_.clear();
}

BlockLease BlockLease::share() const {
  BlockLease shared = pool_ == nullptr ? BlockLease(nullptr, ids_) : pool_->hold(ids_);
  shared.vacant_ = vacant_;
  return shared;
}

void BlockLease::truncate(size_t count) {
  // The last block goes first, here and in release(): eviction takes the oldest, and a prefix that
  // has lost its tail is still of use, one that has lost its head is not.
  while (ids_.size() > std::max(count, vacant_)) {
    pool_->drop_reference(ids_.back());
    ids_.pop_back();
  }
  if (ids_.size() > count) {
    ids_.resize(count);
    vacant_ = count;
  }
}

void BlockLease::vacate_front(size_t count) {
  for (; vacant_ < count; ++vacant_) {
    if (vacant_ == ids_.size()) {
      ids_.resize(count, kNoBlock);
      vacant_ = count;
      return;
    }
    pool_->drop_reference(ids_[vacant_]);
    ids_[vacant_] = kNoBlock;
  }
}

void BlockLease::replace(size_t index, BlockLease&& single) {
  BATON_CHECK(
      index >= vacant_ && index < ids_.size() && single.size() == 1 && single.pool_ == pool_,
      "one block of the same pool replaces one of ours");
  pool_->drop_reference(ids_[index]);
  ids_[index] = single.ids_.front();
  single.ids_.clear();
}

void BlockLease::release() { truncate(0); }

BlockPool::BlockPool(const Options& options) : options_(options) {
  BATON_CHECK(options.blocks > 0 && options.block_tokens > 0, "a pool has blocks of tokens");
  blocks_.resize(static_cast<size_t>(options.blocks));
  free_.reserve(blocks_.size());
  // Handed out from the back: low ids first.
  for (size_t i = blocks_.size(); i > 0; --i) {
    free_.push_back(static_cast<BlockId>(i - 1));
  }
  counts_.free = options.blocks;
}

BlockPool::~BlockPool() {
  BATON_CHECK(counts_.free + counts_.cached == total(), "a lease outlives its pool");
}

int BlockPool::block_tokens() const { return options_.block_tokens; }
int BlockPool::total() const { return options_.blocks; }
int BlockPool::available() const { return counts_.free + counts_.cached; }
BlockCounts BlockPool::counts() const { return counts_; }

int BlockPool::blocks_for(int tokens) const {
  return tokens / options_.block_tokens + (tokens % options_.block_tokens != 0 ? 1 : 0);
}

Result<BlockLease> BlockPool::allocate(int count) {
  BATON_CHECK(count >= 0, "a number of blocks");
  if (count > available()) {
    return resource_exhausted("kv blocks: " + std::to_string(count) + " asked for, " +
                              std::to_string(available()) + " of " + std::to_string(total()) +
                              " available");
  }
  std::vector<BlockId> ids;
  ids.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    if (free_.empty()) {
      evict_oldest();
    }
    const BlockId id = free_.back();
    free_.pop_back();
    blocks_[id].references = 1;
    set_state(id, State::kActive);
    ids.push_back(id);
  }
  return BlockLease(this, std::move(ids));
}

bool BlockPool::shared(BlockId id) const {
  BATON_CHECK(id < blocks_.size(), "a block of this pool");
  return blocks_[id].references > 1 || blocks_[id].indexed;
}

void BlockPool::mark_reserved(const BlockLease& lease) { mark(lease, State::kReserved); }
void BlockPool::mark_quarantined(const BlockLease& lease) { mark(lease, State::kQuarantined); }
void BlockPool::mark_active(const BlockLease& lease) { mark(lease, State::kActive); }

void BlockPool::mark(const BlockLease& lease, State state) {
  for (const BlockId id : lease.ids().subspan(lease.vacant_)) {
    BATON_CHECK(!shared(id), "only a private block is reserved or quarantined");
    set_state(id, state);
  }
}

BlockLease BlockPool::hold(std::vector<BlockId> ids) {
  BlockLease lease(this, std::move(ids));
  while (lease.vacant_ < lease.ids_.size() && lease.ids_[lease.vacant_] == kNoBlock) {
    ++lease.vacant_;
  }
  for (const BlockId id : lease.ids().subspan(lease.vacant_)) {
    add_reference(id);
  }
  return lease;
}

BlockId BlockPool::find(const U128& hash, const U128& parent,
                        std::span<const TokenId> tokens) const {
  const auto entry = index_.find(hash);
  if (entry == index_.end()) {
    return kNoBlock;
  }
  const Block& block = blocks_[entry->second];
  const bool equal = block.parent == parent && std::ranges::equal(block.tokens, tokens);
  return equal ? entry->second : kNoBlock;
}

bool BlockPool::ByContent::before(const Content& a, const Content& b) {
  return a.parent != b.parent ? a.parent < b.parent
                              : std::ranges::lexicographical_compare(a.tokens, b.tokens);
}

BlockPool::Beginning BlockPool::find_beginning(const U128& parent,
                                               std::span<const TokenId> tokens) const {
  Beginning best;
  const auto look_at = [&](BlockId id) {
    const Block& block = blocks_[id];
    if (block.parent == parent) {
      const auto differ = std::ranges::mismatch(block.tokens, tokens);
      const auto equal = static_cast<int>(differ.in2 - tokens.begin());
      best = equal > best.tokens ? Beginning{id, equal} : best;
    }
  };
  // In this order nothing lies between `tokens` and one of the two that share most with them.
  const auto next = by_content_.lower_bound(Content{parent, tokens});
  if (next != by_content_.end()) {
    look_at(*next);
  }
  if (next != by_content_.begin()) {
    look_at(*std::prev(next));
  }
  return best;
}

void BlockPool::enter(BlockId id, const U128& hash, const U128& parent,
                      std::span<const TokenId> tokens) {
  if (!options_.prefix_cache) {
    return;
  }
  BATON_CHECK(id < blocks_.size() && blocks_[id].state == State::kActive,
              "a block is published by a sequence that holds it");
  Block& block = blocks_[id];
  // Its content under another id, or (never seen) another content under its hash: first come stays.
  if (block.indexed || !index_.try_emplace(hash, id).second) {
    return;
  }
  block.indexed = true;
  block.hash = hash;
  block.parent = parent;
  block.tokens.assign(tokens.begin(), tokens.end());
  by_content_.insert(id);
  note_event(events_.added, hash);
}

void BlockPool::drop_cache() {
  while (!lru_.empty()) {
    const BlockId id = lru_.back();
    remove_from_index(id);
    lru_.pop_back();
    free_.push_back(id);
    set_state(id, State::kFree);
  }
  while (!index_.empty()) {
    remove_from_index(index_.begin()->second);
  }
}

BlockPool::Events BlockPool::take_events(size_t limit) {
  Events taken = std::exchange(events_, {});
  for (std::vector<U128>* list : {&taken.added, &taken.removed}) {
    if (list->size() > limit) {
      list->resize(limit);
      taken.overflow = true;
    }
  }
  return taken;
}

void BlockPool::note_event(std::vector<U128>& list, const U128& hash) {
  if (list.size() >= kMaxPendingEvents) {
    events_.overflow = true;
    return;
  }
  list.push_back(hash);
}

void BlockPool::add_reference(BlockId id) {
  Block& block = blocks_[id];
  if (block.state == State::kCached) {
    lru_.erase(block.lru);
    set_state(id, State::kActive);
  }
  BATON_CHECK(block.state == State::kActive, "only readable blocks are shared");
  ++block.references;
}

void BlockPool::drop_reference(BlockId id) {
  Block& block = blocks_[id];
  BATON_CHECK(block.references > 0, "a reference is dropped once");
  if (--block.references > 0) {
    return;
  }
  if (block.indexed) {
    block.lru = lru_.insert(lru_.end(), id);
    set_state(id, State::kCached);
  } else {
    free_.push_back(id);
    set_state(id, State::kFree);
  }
}

void BlockPool::evict_oldest() {
  BATON_CHECK(!lru_.empty(), "available() said that there is a block");
  const BlockId id = lru_.front();
  lru_.pop_front();
  remove_from_index(id);
  free_.push_back(id);
  set_state(id, State::kFree);
  ++evictions_;
}

void BlockPool::remove_from_index(BlockId id) {
  Block& block = blocks_[id];
  note_event(events_.removed, block.hash);
  by_content_.erase(id);
  index_.erase(block.hash);
  block.indexed = false;
  block.tokens.clear();
}

void BlockPool::set_state(BlockId id, State state) {
  --count_of(blocks_[id].state);
  blocks_[id].state = state;
  ++count_of(state);
}

int& BlockPool::count_of(State state) {
  switch (state) {
    case State::kFree:
      return counts_.free;
    case State::kActive:
      return counts_.active;
    case State::kCached:
      return counts_.cached;
    case State::kReserved:
      return counts_.reserved;
    case State::kQuarantined:
      return counts_.quarantined;
  }
  check_failed("state", "a state of a block");
}

}  // namespace baton::kv_cache
