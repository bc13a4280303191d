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

  void arrive_and_wait(WaitPolicy policy) {
    if (parties_ == 1) {
      return;
    }
    // Cannot be a later generation: it only moves once this thread has arrived.
    const uint32_t generation = generation_.value();
    // Acquire and release: the last to arrive has seen all, and its advance() publishes it to all.
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == parties_ - 1) {
      arrived_.store(0, std::memory_order_relaxed);  // published by advance()
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
  return {};
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

  void thread_main(TeamThread& self);
};

TeamThread::TeamThread() : scratch_(std::make_unique<Scratch>()) {}
TeamThread::~TeamThread() = default;

void TeamThread::rank_barrier() {
  team_->state_->ranks[static_cast<size_t>(rank)].barrier.arrive_and_wait(team_->state_->wait);
}

void TeamThread::team_barrier() {
  team_->state_->team_barrier.arrive_and_wait(team_->state_->wait);
}

int TeamThread::next(int counter, int n) {
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
  state.wait = options.wait;
  state.ranks_count = static_cast<int>(options.cpus.size());
  state.threads_per_rank = static_cast<int>(options.cpus[0].size());
  state.team_barrier.set_parties(state.ranks_count * state.threads_per_rank);
  for (int rank = 0; rank < state.ranks_count; ++rank) {
    state.ranks.emplace_back().barrier.set_parties(state.threads_per_rank);
    for (int thread = 0; thread < state.threads_per_rank; ++thread) {
      TeamThread& self = state.contexts.emplace_back();
      self.rank = rank;
      self.ranks = state.ranks_count;
      self.thread = thread;
      self.threads = state.threads_per_rank;
      self.team_ = team.get();
    }
  }
  for (TeamThread& self : state.contexts) {
    try {
      state.threads.emplace_back([&state, &self] { state.thread_main(self); });
    } catch (const std::system_error& e) {
      return internal_error(std::string("cannot start a compute thread: ") + e.what());
    }
    const pthread_t handle = state.threads.back().native_handle();
    const std::string name =
        options.thread_name + "-" + std::to_string(self.rank) + "." + std::to_string(self.thread);
    pthread_setname_np(handle, name.c_str());
    const int cpu = options.cpus[static_cast<size_t>(self.rank)][static_cast<size_t>(self.thread)];
    if (cpu < 0) {
      continue;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (pthread_setaffinity_np(handle, sizeof(one), &one) != 0) {
      return internal_error("cannot pin a compute thread to CPU " + std::to_string(cpu));
    }
  }
  return team;
}

ComputeTeam::~ComputeTeam() {
  state_->stopping.store(true, std::memory_order_relaxed);  // published by advance()
  state_->step_word.advance();
  for (std::thread& thread : state_->threads) {
    thread.join();
  }
}

int ComputeTeam::ranks() const { return state_->ranks_count; }
int ComputeTeam::threads_per_rank() const { return state_->threads_per_rank; }

void ComputeTeam::start(Step step, std::function<void()> done) {
  State& s = *state_;
  BATON_CHECK(s.running.load(std::memory_order_acquire) == 0, "a step is still running");
  s.step = std::move(step);
  s.done = std::move(done);
  s.running.store(s.ranks_count * s.threads_per_rank, std::memory_order_relaxed);
  s.step_word.advance();
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
