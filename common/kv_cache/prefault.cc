#include "common/kv_cache/prefault.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

namespace baton::kv_cache {
namespace {

constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
constexpr uintptr_t kPage = 4096;
// Decode steps follow each other after some tenths of a millisecond.
constexpr Duration kPause = 3ms;

// Pages of [begin, end). False when the kernel cannot; memory that is not there is left to whoever
// uses it.
bool touch(uintptr_t begin, uintptr_t end) {
#ifdef MADV_POPULATE_WRITE
  begin = begin / kPage * kPage;
  auto* const memory = reinterpret_cast<void*>(begin);
  madvise(memory, end - begin, MADV_HUGEPAGE);  // a wish: works without
  return madvise(memory, end - begin, MADV_POPULATE_WRITE) == 0;
#else
  return begin == end;
#endif
}

}  // namespace

Prefaulter::Prefaulter(std::span<const KvPool> pools, const Options& options, const Clock& clock)
    : options_(options), clock_(clock) {
  for (const KvPool& pool : pools) {
    for (int layer = 0; layer < pool.layers(); ++layer) {
      layers_.emplace_back(pool.layer_base(layer), pool.layer_bytes(layer));
    }
  }
  thread_ = std::jthread([this] {
    pthread_setname_np(pthread_self(), "prefault");
    run();
    const MutexLock lock(mutex_);
    done_ = true;
    changed_.notify_all();
  });
}

Prefaulter::~Prefaulter() {
  const MutexLock lock(mutex_);
  stop_ = true;
  changed_.notify_all();
}

bool Prefaulter::wait_done(TimePoint deadline) {
  const MutexLock lock(mutex_);
  while (!done_) {
    if (!changed_.wait_until(mutex_, deadline)) {
      return done_;
    }
  }
  return true;
}

// False when it is time to end.
bool Prefaulter::rest(Duration time) {
  const TimePoint until = clock_.now() + time;
  const MutexLock lock(mutex_);
  while (!stop_ && changed_.wait_until(mutex_, until)) {
  }
  return !stop_;
}

// Until no step has run for kPause, or `patience` is over. False when it is time to end.
bool Prefaulter::wait_for_pause() {
  if (options_.computing == nullptr) {
    return true;
  }
  const TimePoint limit = clock_.now() + options_.patience;
  for (bool paused = false; !paused && clock_.now() < limit;) {
    const bool idle_before = !options_.computing();
    if (!rest(kPause)) {
      return false;
    }
    paused = idle_before && !options_.computing();
  }
  return true;
}

// The piece of each layer that lies `round` large pages after its first.
bool Prefaulter::touch_round(uintptr_t round, bool& any) {
  for (const std::span<std::byte> memory : layers_) {
    const auto begin = reinterpret_cast<uintptr_t>(memory.data());
    const uintptr_t end = begin + memory.size();
    const uintptr_t page = (begin / kHugePage + round) * kHugePage;
    if (page >= end) {
      continue;
    }
    any = true;
    if (!wait_for_pause()) {
      return false;
    }
    const TimePoint started = clock_.now();
    if (!touch(std::max(begin, page), std::min(end, page + kHugePage))) {
      return false;
    }
    gather_pages(reinterpret_cast<void*>(page), kHugePage);
    if (!rest((clock_.now() - started) * options_.rest)) {
      return false;
    }
  }
  return true;
}

void Prefaulter::run() {
  bool more = rest(options_.delay);
  for (uintptr_t round = 0; more; ++round) {
    bool any = false;
    more = touch_round(round, any) && any;
  }
}

}  // namespace baton::kv_cache
