#include "common/device/compute_team.h"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "common/device/guests.h"

namespace baton::device {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kMaxThreads = 1024;
constexpr size_t kMaxNameLength = 8;
// Threads that wait for the CPU of a busy one shall not wait for more than 0.5 ms.
constexpr auto kYieldInterval = std::chrono::microseconds(400);
constexpr unsigned kFlushToZeroAndDenormalsAreZero = 0x8040;

// The generation of the wait word takes the place of the sense flag: a thread that is already at
// the next barrier cannot be mistaken for one that is still at this.
class Barrier {
 public:
  void set_parties(int parties) { parties_ = parties; }

  // `last` runs on the thread that arrives last, before the others go on.
  template <typename Last>
  void arrive_and_wait(WaitPolicy policy, const Last& last) {
    if (parties_ == 1) {
      last();
      return;
    }
    // Cannot be a later generation: it only moves once this thread has arrived.
    const uint32_t generation = generation_.value();
    // Acquire and release: the last to arrive has seen all, and its advance() publishes it to all.
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == parties_ - 1) {
      arrived_.store(0, std::memory_order_relaxed);  // published by advance()
      last();
      generation_.advance();
    } else {
      generation_.wait_while(generation, policy);
    }
  }

 private:
  int parties_ = 1;
  alignas(kCacheLine) std::atomic<int> arrived_{0};
  alignas(kCacheLine) WaitWord generation_;
};

struct alignas(kCacheLine) Counter {
  std::atomic<int> value{0};
};

struct Rank {
  Barrier barrier;
  std::array<Counter, TeamThread::kCounters> counters;
};

struct FreeAligned {
  void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{kCacheLine}); }
};

std::string cpu_is_outside(int cpu) {
  return "CPU " + std::to_string(cpu) + " is not among the CPUs that this process may use";
}

Status check_lending(const TeamOptions& options, const cpu_set_t& allowed) {
  const auto is_slot = [&options](int slot) {
    return options.steps != nullptr && slot >= 0 && slot < StepTable::kMaxSlots;
  };
  if (options.steps != nullptr && !is_slot(options.slot)) {
    return invalid_argument("the table of running steps has no slot " +
                            std::to_string(options.slot));
  }
  if (options.borrowed.empty()) {
    return {};
  }
  const bool pinned = std::ranges::none_of(options.cpus[0], [](int cpu) { return cpu < 0; });
  if (options.cpus.size() != 1 || !pinned || options.wait != WaitPolicy::kSpin ||
      options.borrowed.size() > kMaxThreads) {
    return invalid_argument("only one rank with CPUs of its own can borrow others");
  }
  for (const BorrowedCpu& borrowed : options.borrowed) {
    if (borrowed.idle.empty() || !std::ranges::all_of(borrowed.idle, is_slot)) {
      return invalid_argument("a borrowed CPU needs slots of a table of running steps");
    }
    if (borrowed.cpu < 0 || borrowed.cpu >= CPU_SETSIZE || !CPU_ISSET(borrowed.cpu, &allowed)) {
      return invalid_argument(cpu_is_outside(borrowed.cpu));
    }
  }
  return {};
}

Status check_options(const TeamOptions& options) {
  const size_t ranks = options.cpus.size();
  const size_t threads = ranks == 0 ? 0 : options.cpus[0].size();
  if (ranks == 0 || threads == 0 || ranks > kMaxThreads || threads > kMaxThreads / ranks) {
    return invalid_argument("a compute team needs 1 to 1024 threads");
  }
  if (options.thread_name.size() > kMaxNameLength) {
    return invalid_argument("thread name '" + options.thread_name +
                            "' is longer than 8 characters");
  }
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    return internal_error("cannot read the CPU affinity mask");
  }
  for (const std::vector<int>& rank : options.cpus) {
    if (rank.size() != threads) {
      return invalid_argument("every rank of a compute team needs the same number of threads");
    }
    for (const int cpu : rank) {
      if (cpu >= CPU_SETSIZE || (cpu >= 0 && !CPU_ISSET(cpu, &allowed))) {
        return invalid_argument(cpu_is_outside(cpu));
      }
    }
  }
  return check_lending(options, allowed);
}

}  // namespace

struct TeamThread::Scratch {
  struct Slot {
    std::unique_ptr<std::byte[], FreeAligned> data;
    size_t bytes = 0;
  };
  std::array<Slot, kScratchSlots> slots;
};

struct ComputeTeam::State {
  WaitPolicy wait = WaitPolicy::kSpin;
  int ranks_count = 1;
  int threads_per_rank = 1;

  // Written by start() while no step runs, published by step_word.
  Step step;
  std::function<void()> done;
  std::atomic<bool> stopping{false};
  std::atomic<int> running{0};  // threads that have not finished the step

  WaitWord step_word;  // advances when a step starts and at the end of the team
  WaitWord run_word;   // advances when a step of run() is done

  Barrier team_barrier;
  std::deque<Rank> ranks;
  std::deque<TeamThread> contexts;
  std::vector<std::thread> threads;

  StepTable* steps = nullptr;
  int slot = 0;
  bool with_guests = false;  // as step
  std::unique_ptr<Guests> guests;

  void set_up(const TeamOptions& options, ComputeTeam& team);
  Status start_threads(const TeamOptions& options);
  void thread_main(TeamThread& self);
  void next_region(const TeamThread& self) const {
    if (with_guests) {
      guests->next_region(self.cpu_);
    }
  }
};

TeamThread::TeamThread() : scratch_(std::make_unique<Scratch>()) {}
TeamThread::~TeamThread() = default;

void TeamThread::rank_barrier() {
  ComputeTeam::State& s = *team_->state_;
  if (guest) {
    s.guests->barrier(*this);
    return;
  }
  s.ranks[static_cast<size_t>(rank)].barrier.arrive_and_wait(s.wait, [&] { s.next_region(*this); });
}

void TeamThread::team_barrier() {
  ComputeTeam::State& s = *team_->state_;
  if (guest) {
    s.guests->barrier(*this);
    return;
  }
  s.team_barrier.arrive_and_wait(s.wait, [&] { s.next_region(*this); });
}

int TeamThread::next(int counter, int n) {
  if (guest && team_->state_->guests->owner_is_back(*this)) {
    return n;
  }
  if (team_->state_->wait == WaitPolicy::kYield) {
    yield_now_and_then();
  }
  // Relaxed: only the number matters; what the work reads was published by a barrier.
  std::atomic<int>& value =
      team_->state_->ranks[static_cast<size_t>(rank)].counters[static_cast<size_t>(counter)].value;
  return std::min(value.fetch_add(1, std::memory_order_relaxed), n);
}

void TeamThread::yield_now_and_then() {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_yield_ >= kYieldInterval) {
    sched_yield();
    last_yield_ = std::chrono::steady_clock::now();
  }
}

void TeamThread::reset_counter(int counter) {
  team_->state_->ranks[static_cast<size_t>(rank)]
      .counters[static_cast<size_t>(counter)]
      .value.store(0, std::memory_order_relaxed);
}

std::byte* TeamThread::scratch(int slot, size_t bytes) {
  Scratch::Slot& s = scratch_->slots[static_cast<size_t>(slot)];
  if (bytes > s.bytes) {
    s.data.reset();
    s.data.reset(new (std::align_val_t{kCacheLine}) std::byte[bytes]);
    s.bytes = bytes;
  }
  return s.data.get();
}

void ComputeTeam::State::thread_main(TeamThread& self) {
  const FlushDenormals flush;
  uint32_t seen = 0;
  while (true) {
    step_word.wait_while(seen, wait);
    ++seen;  // one start per finished step, so no generation is skipped
    if (stopping.load(std::memory_order_relaxed)) {
      return;
    }
    step(self);
    if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      if (with_guests) {
        guests->end_step(self.cpu_);
      }
      if (steps != nullptr) {
        steps->end(slot, std::chrono::steady_clock::now());
      }
      // Moved out first: the callback may start the next step, which writes both fields.
      step = nullptr;
      const std::function<void()> finished = std::exchange(done, nullptr);
      finished();
    }
  }
}

ComputeTeam::ComputeTeam(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<ComputeTeam>> ComputeTeam::create(const TeamOptions& options) {
  BATON_RETURN_IF_ERROR(check_options(options));
  auto owned = std::make_unique<State>();
  State& state = *owned;
  std::unique_ptr<ComputeTeam> team(new ComputeTeam(std::move(owned)));
  state.set_up(options, *team);
  BATON_RETURN_IF_ERROR(state.start_threads(options));
  return team;
}

void ComputeTeam::State::set_up(const TeamOptions& options, ComputeTeam& team) {
  wait = options.wait;
  steps = options.steps;
  slot = options.slot;
  ranks_count = static_cast<int>(options.cpus.size());
  threads_per_rank = static_cast<int>(options.cpus[0].size());
  team_barrier.set_parties(ranks_count * threads_per_rank);
  const int lanes = threads_per_rank + static_cast<int>(options.borrowed.size());
  const auto place = [&](TeamThread& self, int rank, int thread) {
    self.rank = rank;
    self.ranks = ranks_count;
    self.thread = thread;
    self.threads = threads_per_rank;
    self.lanes = lanes;
    self.team_ = &team;
  };
  for (int rank = 0; rank < ranks_count; ++rank) {
    ranks.emplace_back().barrier.set_parties(threads_per_rank);
    for (int thread = 0; thread < threads_per_rank; ++thread) {
      TeamThread& self = contexts.emplace_back();
      place(self, rank, thread);
      self.cpu_ = options.cpus[static_cast<size_t>(rank)][static_cast<size_t>(thread)];
    }
  }
  if (!options.borrowed.empty()) {
    guests = std::make_unique<Guests>(*steps, options.borrowed);
    for (TeamThread& self : guests->contexts()) {
      place(self, 0, threads_per_rank + static_cast<int>(self.guest_));
    }
  }
}

Status ComputeTeam::State::start_threads(const TeamOptions& options) {
  for (TeamThread& self : contexts) {
    try {
      threads.emplace_back([this, &self] { thread_main(self); });
    } catch (const std::system_error& e) {
      return internal_error(std::string("cannot start a compute thread: ") + e.what());
    }
    const pthread_t handle = threads.back().native_handle();
    const std::string name =
        options.thread_name + "-" + std::to_string(self.rank) + "." + std::to_string(self.thread);
    pthread_setname_np(handle, name.c_str());
    if (self.cpu_ < 0) {
      continue;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(self.cpu_, &one);
    if (pthread_setaffinity_np(handle, sizeof(one), &one) != 0) {
      return internal_error("cannot pin a compute thread to CPU " + std::to_string(self.cpu_));
    }
  }
  return guests == nullptr ? Status() : guests->start(options.thread_name);
}

ComputeTeam::~ComputeTeam() {
  // Stopped before it is destroyed: its threads find it by the pointer.
  if (state_->guests != nullptr) {
    state_->guests->stop();
  }
  state_->stopping.store(true, std::memory_order_relaxed);  // published by advance()
  state_->step_word.advance();
  for (std::thread& thread : state_->threads) {
    thread.join();
  }
}

int ComputeTeam::ranks() const { return state_->ranks_count; }
int ComputeTeam::threads_per_rank() const { return state_->threads_per_rank; }

void ComputeTeam::start(Step step, std::function<void()> done) {
  start_step(std::move(step), std::move(done), false);
}

void ComputeTeam::start_with_guests(Step step, std::function<void()> done) {
  start_step(std::move(step), std::move(done), state_->guests != nullptr);
}

void ComputeTeam::start_step(Step step, std::function<void()> done, bool with_guests) {
  State& s = *state_;
  BATON_CHECK(s.running.load(std::memory_order_acquire) == 0, "a step is still running");
  announce();
  s.step = std::move(step);
  s.done = std::move(done);
  s.with_guests = with_guests;
  for (Rank& rank : s.ranks) {
    for (Counter& counter : rank.counters) {
      counter.value.store(0, std::memory_order_relaxed);  // published by what follows
    }
  }
  s.running.store(s.ranks_count * s.threads_per_rank, std::memory_order_relaxed);
  if (with_guests) {
    s.guests->begin_step();
  }
  s.step_word.advance();
}

void ComputeTeam::set_guest_step(Step step) {
  if (state_->guests != nullptr) {
    state_->guests->set_step(std::move(step));
  }
}

void ComputeTeam::announce() {
  if (state_->steps != nullptr) {
    state_->steps->begin(state_->slot);
  }
}

int ComputeTeam::guests() const {
  return state_->guests == nullptr ? 0 : static_cast<int>(state_->guests->contexts().size());
}

double ComputeTeam::borrowed_seconds() const {
  return state_->with_guests ? state_->guests->step_seconds() : 0;
}

void ComputeTeam::run(const Step& step) {
  const uint32_t seen = state_->run_word.value();
  // A member, not a local: the last thread may still touch the word after the wait has ended.
  start(step, [this] { state_->run_word.advance(); });
  state_->run_word.wait_while(seen, WaitPolicy::kYield);
}

FlushDenormals::FlushDenormals() : saved_(_mm_getcsr()) {
  _mm_setcsr(saved_ | kFlushToZeroAndDenormalsAreZero);
}

FlushDenormals::~FlushDenormals() { _mm_setcsr(saved_); }

}  // namespace baton::device
