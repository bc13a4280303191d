#pragma once

// Touches the memory of KV pools from a thread of its own, so that a worker can answer before all
// of its pool is there: on a virtual machine whose memory comes from the host at the first touch, a
// gigabyte takes seconds. Blocks are touched in the order in which block_pool.h hands them out; a
// step that reaches a block first takes the faults itself and is as correct.
//
// The first piece of every layer is touched at once, the rest at a fixed share of one CPU. Contents
// are never changed, so pools may be used meanwhile. Where the kernel cannot touch without writing
// (Linux before 5.14) nothing is done.

#include <cstddef>
#include <span>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/kv_cache/kv_pool.h"

namespace baton::kv_cache {

class Prefaulter final {
 public:
  struct Options {
    size_t piece_bytes = size_t{2} << 20;  // what one call to the kernel takes; a page or more
    int rest = 3;                          // times as long as it worked
  };

  // `pools` may be moved but outlive this; so does the clock.
  Prefaulter(std::span<const KvPool> pools, const Options& options, const Clock& clock);
  ~Prefaulter();  // stops after the piece under way
  Prefaulter(const Prefaulter&) = delete;
  Prefaulter& operator=(const Prefaulter&) = delete;

  // Whether everything is touched by `deadline`.
  bool wait_done(TimePoint deadline);

 private:
  void run();
  bool rest(Duration time);

  std::vector<std::span<std::byte>> layers_;
  const Options options_;
  const Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  bool stop_ GUARDED_BY(mutex_) = false;
  bool done_ GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace baton::kv_cache
