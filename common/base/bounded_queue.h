#pragma once

// How threads meet: a FIFO bounded by items and by bytes, that can be closed. Any number of
// producers and consumers. After close() pushes fail and pops drain what is left, then return
// nothing.
//
// An optional `on_push` hook runs after each successful push outside the lock; it must not block
// (it writes an eventfd for consumers that poll).

#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace baton {

struct QueueLimits {
  size_t items = 1024;
  size_t bytes = SIZE_MAX;
};

enum class PushResult { kPushed, kFull, kClosed };

template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(QueueLimits limits, std::function<void()> on_push = {})
      : limits_(limits), on_push_(std::move(on_push)) {}

  // Never blocks. On kFull and kClosed `item` is left as it was. An item larger than the byte limit
  // is accepted when the queue is empty.
  PushResult try_push(T&& item, size_t bytes = 0) {
    {
      MutexLock lock(mutex_);
      if (closed_) {
        return PushResult::kClosed;
      }
      if (items_.size() >= limits_.items || (!items_.empty() && bytes_ + bytes > limits_.bytes)) {
        return PushResult::kFull;
      }
      items_.emplace_back(std::move(item), bytes);
      bytes_ += bytes;
    }
    ready_.notify_one();
    if (on_push_) {
      on_push_();
    }
    return PushResult::kPushed;
  }

  std::optional<T> try_pop() {
    MutexLock lock(mutex_);
    return take();
  }

  // Waits until an item is there, the queue is closed and empty, or `deadline`.
  std::optional<T> pop_until(TimePoint deadline) {
    MutexLock lock(mutex_);
    while (items_.empty() && !closed_) {
      if (!ready_.wait_until(mutex_, deadline)) {
        break;
      }
    }
    return take();
  }

  void close() {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
    if (on_push_) {
      on_push_();
    }
  }

  bool closed() const {
    MutexLock lock(mutex_);
    return closed_;
  }
  size_t size() const {
    MutexLock lock(mutex_);
    return items_.size();
  }

 private:
  std::optional<T> take() REQUIRES(mutex_) {
    if (items_.empty()) {
      return std::nullopt;
    }
    std::optional<T> item(std::move(items_.front().first));
    bytes_ -= items_.front().second;
    items_.pop_front();
    return item;
  }

  const QueueLimits limits_;
  const std::function<void()> on_push_;
  mutable Mutex mutex_;
  CondVar ready_;
  std::deque<std::pair<T, size_t>> items_ GUARDED_BY(mutex_);
  size_t bytes_ GUARDED_BY(mutex_) = 0;
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace baton
