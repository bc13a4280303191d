#include "router/request_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "common/base/log.h"

namespace baton::router {
namespace {

// Non-blocking, so that a named pipe without a reader is an error and not a thread that hangs.
int open_file(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0640);
}

}  // namespace

Result<std::unique_ptr<RequestLog>> RequestLog::open(const std::string& path, const Clock& clock,
                                                     metrics::Registry& registry) {
  const int fd = open_file(path);
  if (fd < 0) {
    return invalid_argument("router.request_log: cannot write '" + path +
                            "': " + std::strerror(errno));
  }
  return std::unique_ptr<RequestLog>(
      new RequestLog(path, fd, clock, registry.counter(metrics::MetricId::kRequestLogDropped)));
}

RequestLog::RequestLog(std::string path, int fd, const Clock& clock, metrics::Counter dropped)
    : path_(std::move(path)),
      fd_(fd),
      clock_(clock),
      dropped_(dropped),
      lines_({.items = kQueuedLines, .bytes = kQueuedBytes}),
      thread_([this] { run(); }) {
  pthread_setname_np(thread_.native_handle(), "request-log");
}

RequestLog::~RequestLog() {
  lines_.close();
  thread_.join();
  if (fd_ >= 0) {
    close(fd_);
  }
}

void RequestLog::write(std::string line) {
  const size_t bytes = line.size();
  if (lines_.try_push(std::move(line), bytes) != PushResult::kPushed) {
    dropped_.add();
  }
}

void RequestLog::run() {
  constexpr int64_t kMostLines = 512;  // in one write
  while (true) {
    std::optional<std::string> line = lines_.pop_until(clock_.now() + 1s);
    if (!line) {
      if (!lines_.closed()) {
        continue;
      }
      line = lines_.try_pop();  // written after the wait had ended, before the close
      if (!line) {
        return;
      }
    }
    std::string lines;
    int64_t count = 0;
    while (line) {
      lines += *line;
      lines += '\n';
      line = ++count < kMostLines ? lines_.try_pop() : std::nullopt;
    }
    reopen_if_moved();
    append(lines, count);
  }
}

void RequestLog::reopen_if_moved() {
  const TimePoint now = clock_.now();
  if (fd_ >= 0 && now < next_look_) {
    return;
  }
  next_look_ = now + 1s;
  struct stat named{};
  struct stat opened{};
  const bool same = fd_ >= 0 && ::stat(path_.c_str(), &named) == 0 && ::fstat(fd_, &opened) == 0 &&
                    named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
  if (same) {
    return;
  }
  const int fresh = open_file(path_);
  if (fresh < 0) {
    warn(std::strerror(errno));
    return;  // an old file that was moved is better than none
  }
  if (fd_ >= 0) {
    close(fd_);
  }
  fd_ = fresh;
  torn_ = false;
}

void RequestLog::append(const std::string& lines, int64_t count) {
  const std::string text = (torn_ ? "\n" : "") + lines;
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(fd_, text.data() + done, text.size() - done);
    if (written > 0) {
      done += static_cast<size_t>(written);
    } else if (written == 0 || errno != EINTR) {
      break;
    }
  }
  torn_ = done > 0 ? text[done - 1] != '\n' : torn_;
  if (done < text.size()) {
    const char* why = std::strerror(errno);
    const auto whole =
        std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(done), '\n');
    const int64_t kept = whole - (text[0] == '\n' && done > 0 ? 1 : 0);
    dropped_.add(static_cast<double>(count - kept));
    warn(why);
  }
}

void RequestLog::warn(const std::string& what) {
  constexpr Duration kPause = 60s;
  const TimePoint now = clock_.now();
  if (now >= next_warning_) {
    next_warning_ = now + kPause;
    log_warn("request log cannot be written; lines are dropped and counted",
             {{"path", path_}, {"error", what}});
  }
}

}  // namespace baton::router
