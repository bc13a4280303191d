#pragma once

// Asks the programs of a cluster over HTTP whether they live (/livez), as Kubernetes' probe does,
// and names those that have not for too long: a loop that hangs, a stopped process. Who kills them
// is the supervisor. The thread is its own, because a process that hangs takes the whole time-out
// to ask.

#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/http/client.h"
#include "deploy/baton/supervisor.h"

namespace baton::cli {

class LivenessWatch {
 public:
  struct Options {
    Duration stuck_after = 30s;
    Duration poll_interval = 1s;
    Duration timeout = 1s;   // of one question
    http::TlsTrust trust{};  // of a router with TLS
  };
  // Starts the thread.
  LivenessWatch(const Options& options, const Clock& clock);
  ~LivenessWatch();
  LivenessWatch(const LivenessWatch&) = delete;
  LivenessWatch& operator=(const LivenessWatch&) = delete;

  // Those to ask from now on, by their metrics_url. One that is known already keeps its count.
  void set(const std::vector<RunningProgram>& programs);
  // Readable when take() has something.
  int fd() const { return fd_; }
  // Each once.
  std::vector<StuckProgram> take();

 private:
  struct Target {
    pid_t pid = 0;
    std::string url;
    TimePoint asked{};  // when it was last asked
    Duration failing{};
    bool told = false;
  };

  void run();
  void note(const Target& asked, const std::string& why);

  const Options options_;
  const Clock& clock_;
  const int fd_;
  Mutex mutex_;
  CondVar changed_;
  bool over_ GUARDED_BY(mutex_) = false;
  std::vector<Target> targets_ GUARDED_BY(mutex_);
  std::vector<StuckProgram> stuck_ GUARDED_BY(mutex_);
  http::Client client_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace baton::cli
