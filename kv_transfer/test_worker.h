#pragma once

// For tests: a worker's pools with contents that are a function of (seed, layer, head, token), and
// a recorder of an agent's events.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/kv_cache/kv_pool.h"
#include "kv_transfer/transfer.h"

namespace baton::kv_transfer {

struct TestShape {
  int layers = 3;
  int kv_heads = 3;
  int dim = 16;
  int block_tokens = 32;
  int blocks = 64;
  std::vector<kv_cache::HeadRange> ranks = {{0, 3}};
  // Of a model with windows: the group of each layer, of how many tokens the window is, blocks.
  std::vector<uint8_t> layer_groups;
  int window = 0;
  int window_blocks = 0;
  bool shared = false;  // in files, for the transport pool

  kv_cache::KvLayout layout() const;
};

// KV heads of each rank of a group of `degree` for a model whose query heads are cut into segments.
std::vector<kv_cache::HeadRange> head_ranges(int query_heads, int kv_heads, int segments,
                                             int degree);

class TestPools {
 public:
  explicit TestPools(const TestShape& shape);

  const TestShape& shape() const { return shape_; }
  std::vector<const kv_cache::KvPool*> pointers() const;
  std::span<const kv_cache::KvPool> all() const { return pools_; }
  kv_cache::KvPool& pool(int rank) { return pools_[static_cast<size_t>(rank)]; }
  int blocks_for(int tokens) const {
    return (tokens + shape_.block_tokens - 1) / shape_.block_tokens;
  }

  // Writes / compares the K and V of tokens [from, to) of a sequence in the layers of a cache
  // group, on every rank that holds the head. mismatches() returns how many 16-bit values differ.
  void write(const std::vector<BlockId>& table, uint64_t seed, int from, int to, int group = 0);
  size_t mismatches(const std::vector<BlockId>& table, uint64_t seed, int from, int to,
                    int group = 0) const;
  void zero_values(const std::vector<BlockId>& table, int group = 0);
  // How many 16-bit values of the slots [tokens, end of the table) are not zero.
  size_t nonzero_after(const std::vector<BlockId>& table, int tokens) const;
  // XXH3-like sum over all memory of a block, to see that nothing touched it.
  uint64_t checksum(BlockId id) const;

 private:
  template <typename Visit>
  void for_each(const std::vector<BlockId>& table, int from, int to, int group, Visit visit) const;

  TestShape shape_;
  std::vector<kv_cache::KvPool> pools_;
};

// Thread-safe.
class EventLog {
 public:
  void add(Event event) {
    {
      MutexLock lock(mutex_);
      events_.push_back(std::move(event));
    }
    changed_.notify_all();
  }
  std::function<void(Event)> sink() {
    return [this](Event event) { add(std::move(event)); };
  }

  // The next event of type T that `wanted` accepts and that was not taken before; nothing after
  // `limit`.
  template <typename T>
  std::optional<T> take(const std::function<bool(const T&)>& wanted = {}, Duration limit = 10s) {
    const TimePoint deadline = std::chrono::steady_clock::now() + limit;
    MutexLock lock(mutex_);
    for (;;) {
      for (size_t i = 0; i < events_.size(); ++i) {
        const T* event = std::get_if<T>(&events_[i]);
        if (event != nullptr && (!wanted || wanted(*event))) {
          T found = std::move(*std::get_if<T>(&events_[i]));
          events_.erase(events_.begin() + static_cast<ptrdiff_t>(i));
          return found;
        }
      }
      if (!changed_.wait_until(mutex_, deadline)) {
        return std::nullopt;
      }
    }
  }
  template <typename T>
  size_t count() const {
    MutexLock lock(mutex_);
    size_t n = 0;
    for (const Event& event : events_) {
      n += std::holds_alternative<T>(event) ? 1 : 0;
    }
    return n;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Event> events_ GUARDED_BY(mutex_);
};

AgentOptions test_options(const TestPools& pools, wire::Role role, const std::string& name,
                          uint64_t incarnation);
// A request body of a prompt of that many tokens.
wire::RunBody test_body(int tokens, uint64_t request);

}  // namespace baton::kv_transfer
