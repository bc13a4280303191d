#include "common/device/guests.h"

#include <immintrin.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

namespace baton::device {
namespace {

// An owner that had a step so lately is about to have the next: decode steps follow each other
// after some tenths of a millisecond.
constexpr Duration kQuiet = 3ms;
// A region lasts some tens of microseconds in decoding, up to milliseconds in a long prompt.
constexpr Duration kGuestSpin = 100us;
constexpr Duration kShortNap = 50us;
constexpr Duration kNap = 2ms;
constexpr int kNice = 10;
constexpr int kPausesPerClockRead = 16;
// A guest without CPU time for so long has been pre-empted. Less than that also happens to a
// virtual machine whose CPU the host takes for a moment.
constexpr Duration kStopped = 400us;
// A guest that lost its CPU though the owner is idle has met another program; it stays away for
// longer and longer while it meets one whenever it has come back.
constexpr Duration kLeastStayAway = 2ms;
constexpr Duration kMostStayAway = 500ms;
constexpr Duration kForgiven = 50ms;

TimePoint now() { return std::chrono::steady_clock::now(); }

void nap(Duration time) {
  const timespec ts{0, static_cast<long>(time.count())};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, nullptr);
}

void pin(pid_t thread, int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  // It may fail only when the CPU is taken from the process (cpuset); the thread then stays where
  // it is, which costs time and nothing else.
  (void)sched_setaffinity(thread, sizeof(one), &one);
}

// CPU time of a thread of this process.
Duration cpu_time_of(pid_t thread) {
  // What pthread_getcpuclockid makes of the kernel's number: per thread, scheduler's clock.
  const auto clock = static_cast<clockid_t>((~static_cast<unsigned>(thread) << 3) | 6);
  timespec ts{};
  return clock_gettime(clock, &ts) == 0
             ? std::chrono::seconds(ts.tv_sec) + std::chrono::nanoseconds(ts.tv_nsec)
             : Duration(0);
}

}  // namespace

Guests::Guests(const StepTable& steps, const std::vector<BorrowedCpu>& borrowed) : steps_(steps) {
  for (const BorrowedCpu& cpu : borrowed) {
    guests_.emplace_back().borrowed = cpu;
    TeamThread& self = contexts_.emplace_back();
    self.guest = true;
    self.guest_ = guests_.size() - 1;
    self.cpu_ = cpu.cpu;
  }
}

Guests::~Guests() { stop(); }

void Guests::stop() {
  stopping_.store(true, std::memory_order_relaxed);  // published by advance()
  started_.advance();
  for (std::thread& thread : threads_) {
    thread.join();
  }
  threads_.clear();
}

Status Guests::start(const std::string& thread_name) {
  for (TeamThread& self : contexts_) {
    try {
      threads_.emplace_back([this, &self] { thread_main(self); });
    } catch (const std::system_error& e) {
      return internal_error(std::string("cannot start a thread on a borrowed CPU: ") + e.what());
    }
    const std::string name = thread_name + "-g" + std::to_string(self.guest_);
    pthread_setname_np(threads_.back().native_handle(), name.c_str());
  }
  return {};
}

// --- The team's own side.

void Guests::begin_step() {
  gate_.open();
  started_.advance();
}

void Guests::next_region(int cpu) {
  ++wait_;
  gate_.next_region([this, cpu] { return move_stopped_guests(cpu); });
  if (any_moved_) {
    move_guests_back();
  }
}

void Guests::end_step(int cpu) {
  ++wait_;
  gate_.close([this, cpu] { return move_stopped_guests(cpu); });
  if (any_moved_) {
    move_guests_back();
  }
  const Duration total = worked();
  step_seconds_ = to_seconds(total - worked_before_);
  worked_before_ = total;
}

Duration Guests::worked() const {
  int64_t ns = 0;
  for (const Guest& guest : guests_) {
    ns += guest.worked_ns.load(std::memory_order_relaxed);
  }
  return Duration(ns);
}

// A guest that is inside and gets no CPU time has been pre-empted, and at its priority that may
// last as long as the other's step. This CPU is free: its thread waits for that guest.
bool Guests::move_stopped_guests(int cpu) {
  const TimePoint time = now();
  bool moved = false;
  for (Guest& guest : guests_) {
    if (guest.moved || !guest.inside.load(std::memory_order_acquire)) {
      continue;
    }
    const pid_t thread = guest.thread_id.load(std::memory_order_relaxed);
    const Duration used = cpu_time_of(thread);
    // The first call of a wait only looks.
    const bool looks = guest.sampled_wait != wait_;
    if (!looks && time - guest.sampled < kStopped) {
      continue;
    }
    const bool stopped = !looks && (used - guest.cpu_time) * 4 < time - guest.sampled;
    guest.sampled_wait = wait_;
    guest.sampled = time;
    guest.cpu_time = used;
    if (!stopped) {
      continue;
    }
    pin(thread, cpu);
    guest.moved = moved = any_moved_ = true;
    if (owner_is_back(guest)) {
      continue;
    }
    const Duration since_back =
        time.time_since_epoch() - Duration(guest.stay_away_until.load(std::memory_order_relaxed));
    stay_away_ = since_back > kForgiven ? kLeastStayAway
                                        : std::clamp(2 * stay_away_, kLeastStayAway, kMostStayAway);
    guest.stay_away_until.store((time + stay_away_).time_since_epoch().count(),
                                std::memory_order_relaxed);
  }
  return moved;
}

void Guests::move_guests_back() {
  any_moved_ = false;
  for (Guest& guest : guests_) {
    if (guest.moved) {
      guest.moved = false;
      pin(guest.thread_id.load(std::memory_order_relaxed), guest.borrowed.cpu);
    }
  }
}

// --- A guest.

void Guests::thread_main(TeamThread& self) {
  const FlushDenormals flush;
  Guest& guest = of(self);
  guest.thread_id.store(static_cast<pid_t>(syscall(SYS_gettid)), std::memory_order_relaxed);
  pin(0, guest.borrowed.cpu);
  // The owner's threads, and those that serve requests, come first; lowering needs no right. Not
  // SCHED_IDLE: on a CPU that is busy with other programs an item might then not end for a second.
  setpriority(PRIO_PROCESS, static_cast<id_t>(guest.thread_id.load(std::memory_order_relaxed)),
              kNice);
  uint32_t seen = 0;
  while (true) {
    started_.wait_while(seen, WaitPolicy::kYield);
    seen = started_.value();
    if (stopping_.load(std::memory_order_relaxed)) {
      return;
    }
    visit_step(self);
  }
}

void Guests::visit_step(TeamThread& self) {
  while (gate_.place().open && !stopping_.load(std::memory_order_relaxed)) {
    if (!may_work(of(self))) {
      wait_until_free(of(self));
      continue;
    }
    of(self).inside.store(true, std::memory_order_release);
    const std::optional<uint64_t> region = gate_.enter();
    if (!region) {
      of(self).inside.store(false, std::memory_order_release);
      return;
    }
    entered(self, *region);
    self.region_ = gate_.first_region();
    self.gone_ = false;
    step_(self);
    if (self.held_ != TeamThread::kNone) {
      leave(self);
    }
    if (!self.gone_) {
      return;  // through
    }
  }
}

bool Guests::may_work(const Guest& guest) const {
  const TimePoint time = now();
  return guest.stay_away_until.load(std::memory_order_relaxed) <= time.time_since_epoch().count() &&
         std::ranges::all_of(guest.borrowed.idle,
                             [&](int slot) { return steps_.idle(slot, kQuiet, time); });
}

// An owner that has nothing more to do says so, and the guest is there at once; all else is looked
// at now and then.
void Guests::wait_until_free(const Guest& guest) {
  const TimePoint time = now();
  for (const int slot : guest.borrowed.idle) {
    const uint32_t seen = steps_.rests(slot);
    if (!steps_.idle(slot, kQuiet, time)) {
      steps_.wait_for_rest(slot, seen, kNap);
      return;
    }
  }
  nap(kNap);
}

bool Guests::owner_is_back(const Guest& guest) const {
  return std::ranges::any_of(guest.borrowed.idle, [&](int slot) { return steps_.running(slot); });
}

bool Guests::owner_is_back(const TeamThread& self) const { return owner_is_back(of(self)); }

void Guests::barrier(TeamThread& self) {
  if (self.held_ == self.region_) {
    leave(self);
  }
  ++self.region_;
  // One that has just come holds a later region, and passes those before it.
  if (self.held_ == TeamThread::kNone && !self.gone_) {
    self.gone_ = !reach_region(self);
  }
}

// Waits for the region and enters it, unless it is over already. False: the step is over, or the
// CPU is wanted.
bool Guests::reach_region(TeamThread& self) {
  TimePoint until = now() + kGuestSpin;
  for (int i = 1;; ++i) {
    const GuestGate::Place place = gate_.place();
    if (!place.open || owner_is_back(self)) {
      return false;
    }
    if (place.region > self.region_) {
      return true;  // over
    }
    if (place.region == self.region_ && enter(self)) {
      return true;
    }
    _mm_pause();
    if (i % kPausesPerClockRead == 0 && now() >= until) {
      if (!may_work(of(self))) {
        return false;
      }
      nap(kShortNap);
      until = now() + kGuestSpin;
    }
  }
}

bool Guests::enter(TeamThread& self) {
  // Before: who waits for a guest shall find out which.
  of(self).inside.store(true, std::memory_order_release);
  if (!gate_.enter(self.region_)) {
    of(self).inside.store(false, std::memory_order_release);
    return false;
  }
  entered(self, self.region_);
  return true;
}

void Guests::entered(TeamThread& self, uint64_t region) {
  self.held_ = region;
  of(self).entered = now();
}

void Guests::leave(TeamThread& self) {
  Guest& guest = of(self);
  self.held_ = TeamThread::kNone;
  guest.worked_ns.fetch_add((now() - guest.entered).count(), std::memory_order_relaxed);
  guest.inside.store(false, std::memory_order_release);
  gate_.leave();
}

}  // namespace baton::device
