#include "deploy/baton/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/log.h"
#include "common/config/program_options.h"

namespace baton::cli {
namespace {

constexpr Duration kLeastPoll = 5ms;

int poll_timeout_ms(TimePoint until, TimePoint now) {
  if (until == TimePoint::max()) {
    return -1;
  }
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
  return static_cast<int>(std::clamp<int64_t>(ms, 0, 60'000));
}

}  // namespace

Supervisor::Supervisor(Options options, const Clock& clock, ClusterWatch& watch)
    : options_(std::move(options)), clock_(clock), watch_(watch) {
  for (Program& program : options_.programs) {
    slots_.emplace_back(options_.backoff).program = std::move(program);
  }
}

Result<Supervisor::Outcome> Supervisor::run() {
  BATON_RETURN_IF_ERROR(start_all());
  while (!stopping() || any_running(true) || any_running(false)) {
    wait_for_events();
    if (take_signal()) {
      on_signal();
    }
    if (take_stop_request() && !stopping()) {
      begin_stop();
    }
    if (!stopping()) {
      kill_stuck();
    }
    reap();
    if (stopping()) {
      advance_stop();
    } else {
      restart_due();
      poll_readiness();
    }
  }
  if (killed_) {
    return Outcome::kKilled;
  }
  return state_ == State::kAbandoned ? Outcome::kCannotStart : Outcome::kStopped;
}

Status Supervisor::start_all() {
  for (Slot& slot : slots_) {
    BATON_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::start(slot.program.argv));
    slot.child = std::move(child);
    slot.started = clock_.now();
  }
  return Status();
}

void Supervisor::wait_for_events() {
  std::vector<pollfd> fds = {{options_.signal_fd, POLLIN, 0}};
  if (options_.stop_request_fd >= 0 && !stopping()) {
    fds.push_back({options_.stop_request_fd, POLLIN, 0});
  }
  if (watch_.stuck_fd() >= 0 && !stopping()) {
    fds.push_back({watch_.stuck_fd(), POLLIN, 0});
  }
  TimePoint until = stop_deadline_;
  for (const Slot& slot : slots_) {
    if (slot.child) {
      fds.push_back({slot.child->exit_fd(), POLLIN, 0});
    } else if (!stopping()) {
      until = std::min(until, slot.restart_at);
    }
  }
  if (changed_ && !stopping()) {
    until = std::min(until, next_poll_);
  }
  poll(fds.data(), fds.size(), poll_timeout_ms(until, clock_.now()));
}

bool Supervisor::take_signal() const {
  signalfd_siginfo info;
  return read(options_.signal_fd, &info, sizeof(info)) == sizeof(info);
}

bool Supervisor::take_stop_request() const {
  if (options_.stop_request_fd < 0) {
    return false;
  }
  pollfd fd = {options_.stop_request_fd, POLLIN, 0};
  return poll(&fd, 1, 0) == 1;
}

void Supervisor::on_signal() {
  const TimePoint now = clock_.now();
  if (!stopping()) {
    begin_stop();
  } else if (now - asked_to_stop_ >= options_.repeat_window) {
    killed_ = true;
    signal_role(true, SIGKILL);
    signal_role(false, SIGKILL);
  }
}

void Supervisor::kill_stuck() {
  for (const StuckProgram& stuck : watch_.take_stuck()) {
    for (Slot& slot : slots_) {
      if (slot.child && slot.child->pid() == stuck.pid) {
        kill(slot, stuck);
      }
    }
  }
}

void Supervisor::kill(Slot& slot, const StuckProgram& stuck) {
  log_warn(
      "a program hangs and is killed",
      {{"program", slot.program.name}, {"reason", stuck.why}, {"for_s", to_seconds(stuck.since)}});
  slot.was_stuck = true;
  slot.child->signal(SIGKILL);
}

// `programs`, in the order of the slots, as all_ready() left them.
void Supervisor::kill_unready(const std::vector<RunningProgram>& programs) {
  const TimePoint now = clock_.now();
  TimePoint router_started{};
  bool routers_ready = true;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (programs[i].role == config::Role::kRouter) {
      router_started = std::max(router_started, slots_[i].started);
      routers_ready = routers_ready && !programs[i].metrics_url.empty();
    }
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    // Of a worker nothing is known before a router tells of it.
    const bool router = programs[i].role == config::Role::kRouter;
    const Duration since = now - (router ? slot.started : std::max(slot.started, router_started));
    const bool known = router || routers_ready;
    if (known && programs[i].metrics_url.empty() && since >= options_.ready_limit &&
        !slot.was_stuck) {
      kill(slot, {programs[i].pid, "not ready since its start", since});
    }
  }
}

void Supervisor::reap() {
  for (Slot& slot : slots_) {
    if (!slot.child) {
      continue;
    }
    if (const std::optional<ChildExit> exit = slot.child->try_reap()) {
      slot.child.reset();
      watch_.on_gone(slot.program.name);
      on_exit(slot, *exit);
    }
  }
}

void Supervisor::on_exit(Slot& slot, const ChildExit& exit) {
  changed_ = true;
  if (stopping()) {
    return;
  }
  const bool cannot_start =
      !exit.signalled && (exit.code == config::kExitCannotStart || exit.code == config::kExitUsage);
  if (state_ == State::kStarting && cannot_start) {
    abandon();  // it has said why
    return;
  }
  const TimePoint now = clock_.now();
  // A life that ended in hanging was no good one, however long it was.
  const bool was_stuck = std::exchange(slot.was_stuck, false);
  const Duration wait = slot.backoff.next(was_stuck ? Duration::zero() : now - slot.started);
  slot.restart_at = now + wait;
  log_warn("a program ended and is started again",
           {{"program", slot.program.name}, {"ended_by", exit.to_text()}, {"in_ms", to_ms(wait)}});
}

void Supervisor::restart_due() {
  const TimePoint now = clock_.now();
  for (Slot& slot : slots_) {
    if (slot.child || slot.restart_at > now) {
      continue;
    }
    slot.started = now;
    Result<ChildProcess> child = ChildProcess::start(slot.program.argv);
    if (child.ok()) {
      slot.child = std::move(child).value();
      slot.restart_at = TimePoint::max();
      continue;
    }
    slot.restart_at = now + slot.backoff.next(Duration(0));
    log_error(child.status().message(), {{"program", slot.program.name}});
  }
}

void Supervisor::poll_readiness() {
  const TimePoint now = clock_.now();
  if (!changed_ || now < next_poll_) {
    return;
  }
  TimePoint last_start{};
  for (const Slot& slot : slots_) {
    last_start = std::max(last_start, slot.started);
  }
  // A tenth of what they have taken so far: a fast start is noticed at once, and a slow one is not
  // asked all the time.
  next_poll_ =
      now + std::clamp((now - last_start) / 10, std::min(kLeastPoll, options_.poll_interval),
                       options_.poll_interval);
  std::vector<RunningProgram> running;
  for (const Slot& slot : slots_) {
    if (!slot.child) {
      return;
    }
    running.push_back({slot.program.role, slot.program.name, slot.child->pid(), {}});
  }
  if (!watch_.all_ready(running)) {
    if (options_.ready_limit > Duration::zero()) {
      kill_unready(running);
    }
    return;
  }
  changed_ = false;
  state_ = State::kServing;
  watch_.on_ready(running);
}

void Supervisor::begin_stop() {
  state_ = State::kDrainingRouters;
  signal_role(true, SIGTERM);
  asked_to_stop_ = clock_.now();
  stop_deadline_ = asked_to_stop_ + options_.router_drain;
}

void Supervisor::advance_stop() {
  const TimePoint now = clock_.now();
  const bool late = now >= stop_deadline_;
  if (state_ == State::kDrainingRouters && !any_running(true)) {
    state_ = State::kDrainingWorkers;
    signal_role(false, SIGTERM);
    stop_deadline_ = now + options_.worker_drain;
  } else if (late && !killed_) {
    const bool routers = state_ == State::kDrainingRouters;
    log_warn("not stopped in time, killed", {{"role", routers ? "router" : "workers"}});
    signal_role(true, SIGKILL);
    if (!routers) {
      signal_role(false, SIGKILL);
    }
    stop_deadline_ = TimePoint::max();  // the kernel ends it; its pidfd wakes us
  }
}

void Supervisor::abandon() {
  state_ = State::kAbandoned;
  signal_role(true, SIGTERM);
  signal_role(false, SIGTERM);
  stop_deadline_ = clock_.now() + options_.abandon_limit;
}

void Supervisor::signal_role(bool routers, int number) {
  for (const Slot& slot : slots_) {
    if (slot.child && (slot.program.role == config::Role::kRouter) == routers) {
      slot.child->signal(number);
    }
  }
}

bool Supervisor::any_running(bool routers) const {
  return std::ranges::any_of(slots_, [routers](const Slot& slot) {
    return slot.child && (slot.program.role == config::Role::kRouter) == routers;
  });
}

}  // namespace baton::cli
