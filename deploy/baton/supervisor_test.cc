#include "deploy/baton/supervisor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <functional>
#include <utility>

#include "deploy/baton/temp_folder.h"

namespace baton::cli {
namespace {

// Programs are shell scripts that say what happens to them in files of a folder. A pipe stands in
// for the signalfd, so that the test program itself gets no signal.
class SupervisorTest : public ::testing::Test, public ClusterWatch {
 protected:
  SupervisorTest() {
    EXPECT_EQ(pipe2(signals_, O_NONBLOCK | O_CLOEXEC), 0);
    options_.signal_fd = signals_[0];
    options_.poll_interval = 5ms;
    options_.repeat_window = Duration(0);
    options_.backoff = {.first = 1ms, .longest = 10ms, .forgiven_after = 30s};
    on_ready_ = [this] { send_signal(); };
  }
  ~SupervisorTest() override {
    close(signals_[0]);
    close(signals_[1]);
    close(stuck_fd_);
  }

  void add(config::Role role, const std::string& name, const std::string& script) {
    options_.programs.push_back(
        {role, name, {"/bin/sh", "-c", "cd " + folder_.path("") + "; " + script}});
  }
  // Runs until SIGTERM, then says so. `last_words` are run between.
  static std::string serving(const std::string& name, const std::string& last_words = ":") {
    return "trap '" + last_words + "; echo " + name + " >> log; exit 0' TERM; echo > up-" + name +
           "; while :; do sleep 0.01; done";
  }
  static std::string deaf(const std::string& name) {
    return "trap '' TERM; echo > up-" + name + "; while :; do sleep 0.01; done";
  }
  void send_signal() const {
    const signalfd_siginfo info{};
    EXPECT_EQ(write(signals_[1], &info, sizeof(info)), static_cast<ssize_t>(sizeof(info)));
  }
  Result<Supervisor::Outcome> run() { return Supervisor(options_, clock_, *this).run(); }

  bool all_ready(std::vector<RunningProgram>& programs) override {
    bool all = true;
    for (RunningProgram& program : programs) {
      const bool up = folder_.has("up-" + program.name);
      program.metrics_url = up ? "http://" + program.name : "";
      all = all && up;
    }
    return all;
  }
  void on_gone(const std::string& name) override { gone_.push_back(name); }
  void on_ready(const std::vector<RunningProgram>& programs) override {
    ready_.push_back(programs);
    on_ready_();
  }

  int stuck_fd() const override { return stuck_fd_; }
  std::vector<StuckProgram> take_stuck() override {
    uint64_t count = 0;
    (void)!read(stuck_fd_, &count, sizeof(count));
    return std::exchange(stuck_, {});
  }

  TempFolder folder_;
  const int stuck_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  std::vector<StuckProgram> stuck_;
  SteadyClock clock_;
  Supervisor::Options options_;
  int signals_[2] = {-1, -1};
  std::function<void()> on_ready_;
  std::vector<std::vector<RunningProgram>> ready_;
  std::vector<std::string> gone_;
};

TEST_F(SupervisorTest, StopsTheRouterBeforeTheWorkers) {
  add(config::Role::kRouter, "router", serving("router", "sleep 0.1"));
  add(config::Role::kPrefill, "p0", serving("p0"));
  const Result<Supervisor::Outcome> outcome = run();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(*outcome, Supervisor::Outcome::kStopped);
  EXPECT_EQ(folder_.read("log"), "router\np0\n");
  ASSERT_EQ(ready_.size(), 1u);
  EXPECT_EQ(ready_[0][1].name, "p0");
  EXPECT_EQ(ready_[0][1].metrics_url, "http://p0");
}

TEST_F(SupervisorTest, StartsAgainWhatDiedAndTellsOfTheReplacement) {
  add(config::Role::kRouter, "router", serving("router"));
  // Dies before it is ready, at first.
  add(config::Role::kDecode, "d0", "[ -e tried ] || { echo > tried; exit 3; }; " + serving("d0"));
  on_ready_ = [this] {
    if (ready_.size() == 1) {
      kill(ready_[0][1].pid, SIGKILL);
    } else {
      send_signal();
    }
  };
  const Result<Supervisor::Outcome> outcome = run();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(*outcome, Supervisor::Outcome::kStopped);
  ASSERT_EQ(ready_.size(), 2u);
  EXPECT_EQ(ready_[0][0].pid, ready_[1][0].pid);
  EXPECT_NE(ready_[0][1].pid, ready_[1][1].pid);
  // Twice before it was ready for good, then at the end.
  EXPECT_EQ(gone_, (std::vector<std::string>{"d0", "d0", "router", "d0"}));
}

TEST_F(SupervisorTest, GivesUpWhenAProgramCannotStart) {
  add(config::Role::kRouter, "router", serving("router"));
  add(config::Role::kPrefill, "p0", "while [ ! -e up-router ]; do sleep 0.01; done; exit 1");
  const Result<Supervisor::Outcome> outcome = run();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(*outcome, Supervisor::Outcome::kCannotStart);
  EXPECT_EQ(folder_.read("log"), "router\n");
  EXPECT_TRUE(ready_.empty());
}

TEST_F(SupervisorTest, KillsWhatHangsAndStartsItAgain) {
  add(config::Role::kRouter, "router", serving("router"));
  add(config::Role::kDecode, "d0", deaf("d0"));
  on_ready_ = [this] {
    if (ready_.size() == 1) {
      stuck_ = {{ready_[0][1].pid, "the worker loop does not turn", 30s}, {1, "a stranger", 30s}};
      const uint64_t one = 1;
      EXPECT_EQ(write(stuck_fd_, &one, sizeof(one)), 8);
      return;
    }
    send_signal();
    send_signal();
  };
  EXPECT_EQ(run().value(), Supervisor::Outcome::kKilled);
  ASSERT_EQ(ready_.size(), 2u);
  EXPECT_EQ(ready_[0][0].pid, ready_[1][0].pid);
  EXPECT_NE(ready_[0][1].pid, ready_[1][1].pid);
}

// It hangs in its first life; the router, which is ready, stays.
TEST_F(SupervisorTest, KillsWhatIsNotReadyLongAfterItsStart) {
  const std::string hangs = "[ -e tried ] || { echo > tried; while :; do sleep 0.01; done; }; ";
  add(config::Role::kRouter, "router", serving("router"));
  add(config::Role::kDecode, "d0", hangs + serving("d0"));
  options_.ready_limit = 1s;
  EXPECT_EQ(run().value(), Supervisor::Outcome::kStopped);
  ASSERT_EQ(ready_.size(), 1u);
  EXPECT_EQ(gone_, (std::vector<std::string>{"d0", "router", "d0"}));
}

TEST_F(SupervisorTest, AWorkerIsNotToBlameForARouterThatIsNotReady) {
  const std::string hangs = "[ -e tried ] || { echo > tried; while :; do sleep 0.01; done; }; ";
  add(config::Role::kRouter, "router", hangs + serving("router"));
  // It is ready only when a new router is there.
  add(config::Role::kDecode, "d0",
      "while [ ! -e up-router ]; do sleep 0.01; done; " + serving("d0"));
  options_.ready_limit = 1s;
  EXPECT_EQ(run().value(), Supervisor::Outcome::kStopped);
  ASSERT_EQ(ready_.size(), 1u);
  EXPECT_EQ(gone_, (std::vector<std::string>{"router", "router", "d0"}));
}

TEST_F(SupervisorTest, ReportsAProgramThatIsNotThere) {
  options_.programs.push_back({config::Role::kRouter, "router", {folder_.path("none")}});
  EXPECT_EQ(run().status().message(),
            "cannot run " + folder_.path("none") + ": No such file or directory");
}

TEST_F(SupervisorTest, KillsEverythingAtTheSecondSignal) {
  add(config::Role::kRouter, "router", deaf("router"));
  add(config::Role::kDecode, "d0", deaf("d0"));
  on_ready_ = [this] {
    send_signal();
    send_signal();
  };
  const Result<Supervisor::Outcome> outcome = run();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(*outcome, Supervisor::Outcome::kKilled);
  EXPECT_EQ(kill(ready_[0][0].pid, 0), -1);
  EXPECT_EQ(kill(ready_[0][1].pid, 0), -1);
}

TEST_F(SupervisorTest, TakesSignalsInQuickSuccessionAsOne) {
  add(config::Role::kRouter, "router", serving("router"));
  options_.repeat_window = 1h;
  on_ready_ = [this] {
    send_signal();
    send_signal();
  };
  EXPECT_EQ(run().value(), Supervisor::Outcome::kStopped);
  EXPECT_EQ(folder_.read("log"), "router\n");
}

TEST_F(SupervisorTest, KillsWhatDoesNotDrainInTime) {
  add(config::Role::kRouter, "router", deaf("router"));
  add(config::Role::kDecode, "d0", deaf("d0"));
  add(config::Role::kDecode, "d1", serving("d1"));
  options_.router_drain = 20ms;
  options_.worker_drain = 300ms;
  EXPECT_EQ(run().value(), Supervisor::Outcome::kStopped);
  EXPECT_EQ(folder_.read("log"), "d1\n");
}

TEST_F(SupervisorTest, StopsOnRequest) {
  add(config::Role::kRouter, "router", serving("router"));
  options_.stop_request_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  on_ready_ = [this] {
    const uint64_t one = 1;
    EXPECT_EQ(write(options_.stop_request_fd, &one, sizeof(one)), 8);
  };
  EXPECT_EQ(run().value(), Supervisor::Outcome::kStopped);
  EXPECT_EQ(folder_.read("log"), "router\n");
  close(options_.stop_request_fd);
}

}  // namespace
}  // namespace baton::cli
