#include "deploy/baton/liveness_watch.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace baton::cli {
namespace {

std::string live_url(std::string metrics_url) {
  constexpr std::string_view kMetrics = "/metrics";
  if (metrics_url.ends_with(kMetrics)) {
    metrics_url.resize(metrics_url.size() - kMetrics.size());
  }
  return metrics_url + "/livez";
}

// Empty when it lives.
std::string not_live_reason(const Result<http::Response>& answer) {
  if (!answer.ok()) {
    return "no answer: " + answer.status().message();
  }
  if (answer->status == 200) {
    return {};
  }
  return answer->body.substr(0, answer->body.find('\n'));
}

}  // namespace

LivenessWatch::LivenessWatch(const Options& options, const Clock& clock)
    : options_(options),
      clock_(clock),
      fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      client_({.connect_timeout = options.timeout,
               .timeout = options.timeout,
               .trust = options.trust}) {
  BATON_CHECK(fd_ >= 0, "eventfd failed");
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "liveness");
    run();
  });
}

LivenessWatch::~LivenessWatch() {
  {
    MutexLock lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  client_.cancel();
  thread_.join();
  close(fd_);
}

void LivenessWatch::set(const std::vector<RunningProgram>& programs) {
  MutexLock lock(mutex_);
  std::vector<Target> known = std::exchange(targets_, {});
  for (const RunningProgram& program : programs) {
    Target target;
    target.pid = program.pid;
    const auto same = std::find_if(known.begin(), known.end(), [&program](const Target& other) {
      return other.pid == program.pid;
    });
    if (same != known.end()) {
      target = *same;
    }
    target.url = live_url(program.metrics_url);
    targets_.push_back(std::move(target));
  }
}

std::vector<StuckProgram> LivenessWatch::take() {
  uint64_t count = 0;
  (void)!read(fd_, &count, sizeof(count));
  MutexLock lock(mutex_);
  return std::exchange(stuck_, {});
}

void LivenessWatch::run() {
  TimePoint next = clock_.now();
  while (true) {
    std::vector<Target> targets;
    {
      MutexLock lock(mutex_);
      while (!over_ && clock_.now() < next) {
        changed_.wait_until(mutex_, next);
      }
      if (over_) {
        return;
      }
      targets = targets_;
    }
    next = clock_.now() + options_.poll_interval;
    for (const Target& target : targets) {
      note(target, not_live_reason(client_.get(target.url)));
    }
  }
}

// Only the time between two answers counts, and no more than they should be apart: if this process
// itself was stopped, silence proves nothing.
void LivenessWatch::note(const Target& asked, const std::string& why) {
  MutexLock lock(mutex_);
  const auto target = std::find_if(targets_.begin(), targets_.end(),
                                   [&asked](const Target& t) { return t.pid == asked.pid; });
  if (over_ || target == targets_.end()) {
    return;
  }
  const TimePoint now = clock_.now();
  const Duration since = target->asked == TimePoint{} ? Duration::zero() : now - target->asked;
  const Duration most = 2 * (options_.poll_interval + options_.timeout);
  target->asked = now;
  target->failing = why.empty() ? Duration::zero() : target->failing + std::min(since, most);
  if (why.empty() || target->told || target->failing < options_.stuck_after) {
    return;
  }
  target->told = true;
  stuck_.push_back({target->pid, why, target->failing});
  const uint64_t one = 1;
  (void)!write(fd_, &one, sizeof(one));
}

}  // namespace baton::cli
