#pragma once

// The threads that run kernels: a tensor-parallel group on the CPU is one process with one rank per
// core set, and one thread per core of it. A step is one SPMD function that every thread of every
// rank runs; the threads meet at barriers inside it.
//
// The owner (worker loop, or a test) starts a step and goes on; it never runs a kernel itself.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/device/wait_word.h"

namespace baton::device {

struct TeamOptions {
  // One entry per rank, one CPU number per thread of that rank; a negative number leaves the thread
  // unpinned. Each rank needs the same number of threads, at least one; at most 1024 in all.
  std::vector<std::vector<int>> cpus = {{-1}};
  WaitPolicy wait = WaitPolicy::kSpin;
  std::string thread_name = "compute";  // at most 8 characters; "-<rank>.<thread>" is added
};

class ComputeTeam;

// What one compute thread knows during a step. Not copyable, lives as long as the team. All its
// functions are for the thread itself.
class TeamThread {
 public:
  TeamThread();
  ~TeamThread();
  TeamThread(const TeamThread&) = delete;
  TeamThread& operator=(const TeamThread&) = delete;

  int rank = 0;
  int ranks = 1;
  int thread = 0;   // within the rank
  int threads = 1;  // of each rank

  // All threads of this rank / of all ranks. Each barrier orders memory between its participants.
  void rank_barrier();
  void team_barrier();

  // Dynamic work sharing within the rank: `for (int i; (i = t.next(counter, n)) < n;)`. Hands out
  // 0..n-1, each once, ascending. `counter` is one of kCounters per rank. A counter is reset by
  // reset_counter, which one thread calls where a rank_barrier lies between it and the last and the
  // next use. With WaitPolicy::kYield it gives up the CPU for a moment every 0.4 ms, so that work
  // in small items leaves room for the other threads of the CPU.
  static constexpr int kCounters = 8;
  int next(int counter, int n);
  void reset_counter(int counter);

  // Scratch of this thread, 64-byte aligned, kept between calls; grows to the largest request (and
  // loses its content then), so a step in steady state allocates nothing. Slots are independent.
  static constexpr int kScratchSlots = 8;
  std::byte* scratch(int slot, size_t bytes);

 private:
  friend class ComputeTeam;
  void yield_now_and_then();

  ComputeTeam* team_ = nullptr;
  std::chrono::steady_clock::time_point last_yield_;
  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
};

class ComputeTeam {
 public:
  // Starts the threads, pins them, sets flush-to-zero (common/kernels: denormals are flushed
  // everywhere). kInvalidArgument for options that break their rules and for a CPU that is not in
  // the caller's affinity mask, naming it; kInternal if the system refuses a thread or a pin.
  static Result<std::unique_ptr<ComputeTeam>> create(const TeamOptions& options);
  ~ComputeTeam();  // joins; precondition: no step runs

  int ranks() const;
  int threads_per_rank() const;

  using Step = std::function<void(TeamThread&)>;

  // Runs `step` on every thread; `done` is called once, on the last thread that finishes, and must
  // not block. Returns at once. Precondition: the previous step's `done` has been called (starting
  // from inside `done` is allowed).
  void start(Step step, std::function<void()> done);
  // start() and wait. For tools and tests.
  void run(const Step& step);

  // Counts layers and steps; read by the heartbeat to tell a stuck step from a slow one.
  void note_progress() { progress_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }

 private:
  friend class TeamThread;
  struct State;
  explicit ComputeTeam(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
  std::atomic<uint64_t> progress_{0};
};

// Sets MXCSR FTZ and DAZ for the current thread and restores it on destruction. Every thread that
// does arithmetic on activations holds one (compute threads do by themselves).
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  unsigned saved_;
};

}  // namespace baton::device
