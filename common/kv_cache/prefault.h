#pragma once

// Touches the memory of KV pools from a thread of its own, so that a worker can answer before all
// of its pool is there: on a virtual machine whose memory comes from the host at the first touch, a
// gigabyte takes seconds. Blocks are touched in the order in which block_pool.h hands them out, in
// large pages, in the pauses between steps: a piece may take milliseconds of a CPU, and a step
// would wait for the thread that it takes it from. A step that reaches a block first takes the
// faults itself, in small pages, so that it pays for no more than it uses, and is as correct.
//
// A piece is then gathered into one large page: where a step was first, pages are small, and of
// pools that other processes map (Backing::kShared) the kernel makes no large ones by itself,
// unless an administrator says so.
//
// Contents are never changed, so pools may be used meanwhile. Where the kernel cannot touch without
// writing (Linux before 5.14) nothing is done.

#include <cstddef>
#include <cstdint>
#include <functional>
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
    Duration delay = 1s;  // before the first piece: the start and the first answer come first
    int rest = 1;         // after a piece, times as long as that took
    // Whether a step runs on CPUs that this thread may take; empty: none ever does. Asked from this
    // thread. A piece waits for a pause of some milliseconds, but not for longer than `patience`.
    std::function<bool()> computing = nullptr;
    Duration patience = 100ms;
  };

  // `pools` were made with Touch::kByOwner; they may be moved but outlive this. So does the clock.
  Prefaulter(std::span<const KvPool> pools, const Options& options, const Clock& clock);
  ~Prefaulter();  // stops after the piece under way
  Prefaulter(const Prefaulter&) = delete;
  Prefaulter& operator=(const Prefaulter&) = delete;

  // Whether everything is touched by `deadline`.
  bool wait_done(TimePoint deadline);

 private:
  void run();
  bool touch_round(uintptr_t round, bool& any);
  bool rest(Duration time);
  bool wait_for_pause();

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
