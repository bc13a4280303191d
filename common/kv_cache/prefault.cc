#include "common/kv_cache/prefault.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

namespace baton::kv_cache {
namespace {

constexpr uintptr_t kPage = 4096;

// False when the kernel cannot; memory that is not there is left to whoever uses it.
bool touch(std::byte* memory, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory) / kPage * kPage;
  const uintptr_t end = reinterpret_cast<uintptr_t>(memory) + bytes;
  return madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE) == 0;
#else
  return false;
#endif
}

}  // namespace

Prefaulter::Prefaulter(std::span<const KvPool> pools, const Options& options, const Clock& clock)
    : options_(options), clock_(clock) {
  for (const KvPool& pool : pools) {
    const size_t bytes = pool.bytes() / static_cast<size_t>(pool.layers());
    for (int layer = 0; layer < pool.layers(); ++layer) {
      layers_.emplace_back(pool.layer_base(layer), bytes);
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

void Prefaulter::run() {
  for (size_t at = 0;; at += options_.piece_bytes) {
    bool any = false;
    for (const std::span<std::byte> layer : layers_) {
      if (at >= layer.size()) {
        continue;
      }
      any = true;
      const TimePoint begin = clock_.now();
      if (!touch(layer.data() + at, std::min(options_.piece_bytes, layer.size() - at))) {
        return;
      }
      const Duration busy = clock_.now() - begin;
      if (!rest(at == 0 ? Duration(0) : busy * options_.rest)) {
        return;
      }
    }
    if (!any) {
      return;
    }
  }
}

}  // namespace baton::kv_cache
