#pragma once

// The threads that run kernels: a tensor-parallel group on the CPU is one process with one rank per
// core set, and one thread per core of it. A step is one SPMD function that every thread of every
// rank runs; the threads meet at barriers inside it.
//
// The owner (worker loop, or a test) starts a step and goes on; it never runs a kernel itself.
//
// A team of one rank may also borrow CPUs of other workers. Their threads are *guests*: they run at
// a low priority and only while the CPU's owner is idle, which the owner says in
// a StepTable. Guests take part in a step region by region (guest_gate.h): the team's own threads
// never wait for one that is not there, and one that has lost its CPU in the middle of a work item
// is moved to a CPU of the team to finish it.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/device/step_table.h"
#include "common/device/wait_word.h"

namespace baton::device {

// A CPU of another worker, to be used while none of the workers `idle` (slots of the table) has a
// step.
struct BorrowedCpu {
  int cpu = -1;
  std::vector<int> idle;
};

struct TeamOptions {
  // One entry per rank, one CPU number per thread of that rank; a negative number leaves the thread
  // unpinned. Each rank needs the same number of threads, at least one; at most 1024 in all.
  std::vector<std::vector<int>> cpus = {{-1}};
  WaitPolicy wait = WaitPolicy::kSpin;
  std::string thread_name = "compute";  // at most 8 characters; "-<rank>.<thread>" is added

  // Lending. The table outlives the team; a team with one publishes its steps in `slot`. Borrowed
  // CPUs need it, one rank whose threads are pinned, and kSpin.
  StepTable* steps = nullptr;
  int slot = 0;
  std::vector<BorrowedCpu> borrowed;
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
  int thread = 0;   // within the rank; a guest's number is not below `threads`
  int threads = 1;  // of each rank, guests not counted
  int lanes = 1;    // threads and guests: how many may share work at most
  bool guest = false;

  // All threads of this rank / of all ranks. Each barrier orders memory between its participants.
  // Between two barriers lies a region. A guest calls the same barriers in the same order and does
  // nothing else outside of the regions in which it is present: not even reads of what steps write.
  void rank_barrier();
  void team_barrier();
  // Whether this thread takes part in the region; always true of the team's own threads.
  bool present() const { return !guest || held_ == region_; }

  // Dynamic work sharing within the rank: `for (int i; (i = t.next(counter, n)) < n;)`. Hands out
  // 0..n-1, each once, ascending. `counter` is one of kCounters per rank. A counter is reset by
  // reset_counter, which one thread calls where a rank_barrier lies between it and the last and the
  // next use; the start of a step resets all. With WaitPolicy::kYield it gives up the CPU for a
  // moment every 0.4 ms, so that work in small items leaves room for the other threads of the CPU.
  // A guest whose CPU is wanted by its owner gets no more items.
  static constexpr int kCounters = 8;
  int next(int counter, int n);
  void reset_counter(int counter);

  // Scratch of this thread, 64-byte aligned, kept between calls; grows to the largest request (and
  // loses its content then), so a step in steady state allocates nothing. Slots are independent.
  static constexpr int kScratchSlots = 8;
  std::byte* scratch(int slot, size_t bytes);

 private:
  friend class ComputeTeam;
  friend class Guests;
  void yield_now_and_then();

  int cpu_ = -1;
  // Of a guest: where it is in the step; the region that it has entered; whether it has given up on
  // this step for now; its number.
  static constexpr uint64_t kNone = ~uint64_t{0};
  uint64_t region_ = 0;
  uint64_t held_ = kNone;
  bool gone_ = false;
  size_t guest_ = 0;

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
  // The same with guests, which run the function of set_guest_step().
  void start_with_guests(Step step, std::function<void()> done);
  // What a guest runs in a step, again and again. Before the first step; what it refers to outlives
  // the team, since a guest that comes late runs it, present nowhere, beyond the end of a step.
  void set_guest_step(Step step);
  // Says in the table that a step is about to start, so that borrowers leave in time.
  void announce();
  int guests() const;
  // Of the last step, in seconds of all guests together. Valid in `done` and until the next start.
  double borrowed_seconds() const;
  // start() and wait. For tools and tests.
  void run(const Step& step);

  // Counts layers and steps; read by the heartbeat to tell a stuck step from a slow one.
  void note_progress() { progress_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }

 private:
  friend class TeamThread;
  friend class Guests;
  struct State;
  explicit ComputeTeam(std::unique_ptr<State> state);
  void start_step(Step step, std::function<void()> done, bool with_guests);
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
