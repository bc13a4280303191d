#pragma once

// The file of `router.request_log`: one JSON line for each request that ended (request_record.h);
// what a planner learns from. A thread of its own writes, so that a slow disk never holds up the
// router: lines that find the queue full or the disk unwilling are dropped and counted
// (baton_request_log_dropped_total). A file that was renamed or removed is opened anew within a
// second, which is what log rotation needs.

#include <memory>
#include <string>
#include <thread>

#include "common/base/bounded_queue.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/metrics/registry.h"

namespace baton::router {

class RequestLog {
 public:
  // Appends to a file that is there. invalid_argument, naming the path, when it cannot be opened.
  static Result<std::unique_ptr<RequestLog>> open(const std::string& path, const Clock& clock,
                                                  metrics::Registry& registry);
  // Writes what is queued.
  ~RequestLog();
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;

  // Thread-safe, never blocks. `line` is without a line feed.
  void write(std::string line);

 private:
  RequestLog(std::string path, int fd, const Clock& clock, metrics::Counter dropped);
  void run();
  void reopen_if_moved();
  void append(const std::string& lines, int64_t count);
  void warn(const std::string& what);

  static constexpr size_t kQueuedLines = 8192;
  static constexpr size_t kQueuedBytes = 8u << 20;

  const std::string path_;
  int fd_;
  const Clock& clock_;
  metrics::Counter dropped_;
  bool torn_ = false;  // the last line was cut off
  TimePoint next_look_{};
  TimePoint next_warning_{};
  BoundedQueue<std::string> lines_;
  std::jthread thread_;
};

}  // namespace baton::router
