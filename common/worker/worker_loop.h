#pragma once

// The thread that owns a worker's state: requests, scheduler, block pool, prefix index. It plans a
// step, hands it to the compute threads, and serves its queues while the step runs; it never runs a
// kernel. docs/threading.md lists all threads.

#include <atomic>
#include <optional>

#include "common/base/bounded_queue.h"
#include "common/base/clock.h"
#include "common/device/step_table.h"
#include "common/engine/engine.h"
#include "common/engine/step_cost.h"
#include "common/kv_cache/block_pools.h"
#include "common/metrics/registry.h"
#include "common/worker/role.h"
#include "common/worker/router_links.h"
#include "common/worker/step_window.h"

namespace baton::worker {

// Read by the probes' thread.
struct LoopHealth {
  std::atomic<int64_t> last_turn_ns{0};      // of the clock
  std::atomic<int64_t> transfer_turn_ns{0};  // as the loop has seen it, the same for its thread
  std::atomic<bool> step_running{false};
  std::atomic<uint64_t> compute_ticks{0};
  std::atomic<int64_t> compute_moved_ns{0};  // when compute_ticks last moved
  std::atomic<bool> registered{false};
  std::atomic<bool> draining{false};
};

// An eventfd that wakes the loop from any thread.
class Waker {
 public:
  Waker();
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;
  void wake() const;
  void clear() const;
  int fd() const { return fd_; }

 private:
  int fd_;
};

class WorkerLoop {
 public:
  struct Options {
    Incarnation incarnation;
    Duration heartbeat = 200ms;
    Duration drain_limit = 30s;
    // After the drain's limit: for what was failed to let go of its blocks.
    Duration drain_grace = 5s;
    Duration stuck_after = 1s;           // a step without a layer's end
    bool prompts_only = false;           // a prefill worker: its single tokens are prompts, too
    int stop_fd = -1;                    // readable when the process is asked to stop (signalfd)
    device::StepTable* steps = nullptr;  // of the workers that lend each other their CPUs
    int slot = 0;                        // its own there
  };
  WorkerLoop(Options options, const Clock& clock, engine::Engine& engine,
             kv_cache::BlockPools& blocks, RouterLinks& links, metrics::Registry& registry,
             const Waker& waker);

  const LoopHealth& health() const { return health_; }

  // Runs until asked to stop and drained. Requests that still run at the drain's limit are failed;
  // what has not let go of its blocks after the grace is left behind (its peer hangs). Returns when
  // no step runs and the routers know that the worker leaves.
  void run(Role& role);

 private:
  // The metrics of one kind of step.
  struct KindMetrics {
    KindMetrics(metrics::Registry& registry, std::string_view kind);
    metrics::Histogram seconds;
    metrics::Counter flops, bytes, roofline_seconds;
  };

  void probe_machine();
  void raise_peak(const model::MachineProbe& reached);
  void start_step(Role& role);
  void observe_step(double seconds, double borrowed_seconds);
  void finish_step(Role& role);
  void give_way();
  void tick(Role& role);
  void watch_step(Role& role, TimePoint now);
  void describe_blocks(wire::Heartbeat& heartbeat) const;
  void export_metrics();
  void begin_drain(Role& role);
  bool drained(Role& role, TimePoint now);
  void wait();

  Options options_;
  const Clock& clock_;
  engine::Engine& engine_;
  kv_cache::BlockPools& blocks_;
  RouterLinks& links_;
  const Waker& waker_;
  BoundedQueue<engine::StepOutput> finished_;
  bool step_running_ = false;
  bool at_work_ = false;  // since the last step there has not been nothing to compute
  StepRecord step_;       // the running one
  engine::StepCost step_cost_;
  StepWindow recent_steps_;
  TimePoint next_step_{};     // not before
  model::MachineProbe peak_;  // the highest so far
  int probes_left_ = 3;
  TimePoint next_probe_{};
  TimePoint next_tick_{};
  TimePoint last_tick_{};
  TimePoint drain_until_ = TimePoint::max();
  bool drain_failed_all_ = false;
  bool leave_anyway_ = false;
  uint64_t ticks_ = 0;
  LoopHealth health_;

  metrics::Registry& registry_;
  KindMetrics prefill_steps_, decode_steps_, mixed_steps_;
  metrics::Histogram batch_sequences_, step_tokens_;
  metrics::Gauge cache_usage_, peak_flops_, peak_bytes_;
  metrics::Counter borrowed_seconds_;
  metrics::Counter cache_queries_, cache_hits_, preemptions_;
  kv_cache::BlockPools::CacheStats exported_;
};

}  // namespace baton::worker
