#pragma once

// Inside of compute_team.h: the threads on borrowed CPUs, and how the team's own threads deal with
// them.

#include <sched.h>

#include <atomic>
#include <deque>
#include <functional>
#include <thread>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/device/compute_team.h"
#include "common/device/guest_gate.h"
#include "common/device/step_table.h"
#include "common/device/wait_word.h"

namespace baton::device {

class Guests final {
 public:
  using Step = std::function<void(TeamThread&)>;

  Guests(const StepTable& steps, const std::vector<BorrowedCpu>& borrowed);
  ~Guests();  // stops
  Guests(const Guests&) = delete;
  Guests& operator=(const Guests&) = delete;

  // The context of each, to be filled in before start().
  std::deque<TeamThread>& contexts() { return contexts_; }
  Status start(const std::string& thread_name);
  void stop();  // joins; may be repeated
  void set_step(Step step) { step_ = std::move(step); }

  // On the team's own side, by one thread at a time; `cpu` is the caller's.
  void begin_step();
  void next_region(int cpu);
  void end_step(int cpu);
  double step_seconds() const { return step_seconds_; }  // worked in the last step

  // On a guest.
  void barrier(TeamThread& self);
  bool owner_is_back(const TeamThread& self) const;

 private:
  struct Guest {
    BorrowedCpu borrowed;
    std::atomic<pid_t> thread_id{0};
    std::atomic<bool> inside{false};          // of a region, or about to enter one
    std::atomic<int64_t> stay_away_until{0};  // of the steady clock
    std::atomic<int64_t> worked_ns{0};        // in regions
    TimePoint entered;                        // the guest's own
    // Of the thread that waits at a barrier:
    bool moved = false;
    uint64_t sampled_wait = 0;
    TimePoint sampled;
    Duration cpu_time{0};  // at that moment
  };

  void thread_main(TeamThread& self);
  void visit_step(TeamThread& self);
  bool may_work(const Guest& guest) const;
  void wait_until_free(const Guest& guest);
  bool reach_region(TeamThread& self);
  bool enter(TeamThread& self);
  void entered(TeamThread& self, uint64_t region);
  void leave(TeamThread& self);
  Guest& of(const TeamThread& self) { return guests_[self.guest_]; }
  const Guest& of(const TeamThread& self) const { return guests_[self.guest_]; }

  bool move_stopped_guests(int cpu);
  void move_guests_back();
  bool owner_is_back(const Guest& guest) const;
  Duration worked() const;

  const StepTable& steps_;
  Step step_;
  GuestGate gate_;
  WaitWord started_;  // advances when a step begins and at the end of the team
  std::atomic<bool> stopping_{false};
  std::deque<Guest> guests_;
  std::deque<TeamThread> contexts_;
  std::vector<std::thread> threads_;

  // Of the thread that waits at a barrier.
  uint64_t wait_ = 0;
  bool any_moved_ = false;
  Duration stay_away_{0};
  Duration worked_before_{0};
  double step_seconds_ = 0;
};

}  // namespace baton::device
