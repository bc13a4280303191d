#pragma once

// Keeps the programs of a cluster file running as child processes of this one:
//
//   Starting ---- all ready ----> Serving --- stop ---> DrainingRouters -- gone --> DrainingWorkers
//      |  a program cannot start     ^ |                      (SIGTERM, limit)    (SIGTERM, limit)
//      v                             +-+ one died: again after a back-off
//   Failed (all stopped)
//
// A program that hangs is one that died: it is killed first. Not to be ready long after its start
// is to hang, too.
//
// Routers stop first because a router drains its streams through workers that still serve. A
// second stop signal, in whatever state, kills everything.
//
// One thread: run() waits on the children's pidfds, a signalfd and an eventfd.

#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/config/config.h"
#include "deploy/baton/backoff.h"
#include "deploy/baton/child_process.h"

namespace baton::cli {

struct Program {
  config::Role role = config::Role::kRouter;
  std::string name;
  std::vector<std::string> argv;
};

struct RunningProgram {
  config::Role role = config::Role::kRouter;
  std::string name;
  pid_t pid = 0;
  std::string metrics_url;
};

// One that runs and does nothing.
struct StuckProgram {
  pid_t pid = 0;
  std::string why;
  Duration since{};
};

// What the supervisor cannot know itself: whether its programs can do their work.
class ClusterWatch {
 public:
  virtual ~ClusterWatch() = default;
  // Asked while something has changed, every poll_interval or, after a fresh start, more often.
  // True when requests can be answered by all of `programs`; fills in the metrics_url of those that
  // are ready. Workers are known through a router. May block for a fraction of a second.
  virtual bool all_ready(std::vector<RunningProgram>& programs) = 0;
  // all_ready() has come true: at the start, and again after every replacement.
  virtual void on_ready(const std::vector<RunningProgram>& programs) = 0;
  // The process of this program is gone, however it ended.
  virtual void on_gone(const std::string& name) = 0;
  // Programs to kill, each told once; asked when stuck_fd() (-1: there is none) is readable.
  virtual int stuck_fd() const { return -1; }
  virtual std::vector<StuckProgram> take_stuck() { return {}; }
};

class Supervisor {
 public:
  struct Options {
    std::vector<Program> programs;
    int signal_fd = -1;        // signalfd of SIGINT and SIGTERM, non-blocking
    int stop_request_fd = -1;  // eventfd: written to stop as by a first signal; -1 = none
    Duration router_drain = 35s;
    Duration worker_drain = 35s;
    Duration abandon_limit = 5s;  // for stopping when the cluster could not start
    Duration ready_limit{};       // from a program's start; 0: none
    Duration poll_interval = 50ms;
    // Signals so soon after the first one are the same wish: timeout(1) and others send theirs to
    // a process and to its group.
    Duration repeat_window = 100ms;
    BackoffLimits backoff;
  };
  enum class Outcome {
    kStopped,      // as asked
    kKilled,       // a second signal
    kCannotStart,  // a program ended with status 1 or 2 before all were ready
  };

  Supervisor(Options options, const Clock& clock, ClusterWatch& watch);

  // Returns when no child is left. An error: a program could not even be run.
  Result<Outcome> run();

 private:
  enum class State { kStarting, kServing, kDrainingRouters, kDrainingWorkers, kAbandoned };
  struct Slot {
    explicit Slot(const BackoffLimits& limits) : backoff(limits) {}
    Program program;
    std::optional<ChildProcess> child;
    Backoff backoff;
    TimePoint started;
    TimePoint restart_at = TimePoint::max();
    bool was_stuck = false;  // and is being killed
  };

  Status start_all();
  void wait_for_events();
  bool take_signal() const;
  bool take_stop_request() const;
  void on_signal();
  void kill_stuck();
  void kill_unready(const std::vector<RunningProgram>& programs);
  static void kill(Slot& slot, const StuckProgram& stuck);
  void reap();
  void on_exit(Slot& slot, const ChildExit& exit);
  void restart_due();
  void poll_readiness();
  void begin_stop();
  void advance_stop();
  void abandon();
  void signal_role(bool routers, int number);
  bool any_running(bool routers) const;
  bool stopping() const { return state_ != State::kStarting && state_ != State::kServing; }

  Options options_;
  const Clock& clock_;
  ClusterWatch& watch_;
  std::vector<Slot> slots_;
  State state_ = State::kStarting;
  bool changed_ = true;  // since all_ready() was last true
  bool killed_ = false;
  TimePoint next_poll_{};
  TimePoint asked_to_stop_{};
  TimePoint stop_deadline_ = TimePoint::max();
};

}  // namespace baton::cli
