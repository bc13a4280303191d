#pragma once

// The scheduler of a prefill worker: the most urgent first (RunBody::priority), equal ones first
// come, first served, but for those whose decode worker is full; chunks sized by time; several
// short prompts in one step. A prompt is started only when all its blocks fit, and is never
// preempted. When it starts, the decode worker is asked for room; layers are pushed while later
// ones are computed. Lives on the worker loop's thread.

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/bounded_queue.h"
#include "common/worker/chunk_sizer.h"
#include "common/worker/role.h"
#include "common/worker/tombstones.h"
#include "common/worker/worker_program.h"
#include "kv_transfer/transfer.h"
#include "prefill_worker/prefill_run.h"

namespace baton::prefill_worker {

class PrefillRole final : public worker::Role {
 public:
  explicit PrefillRole(worker::Environment& env);
  ~PrefillRole() override;

  // Opens the transfer agent; before any other call.
  Status start(const kv_transfer::AgentOptions& options);

  void on_message(wire::Message message, Incarnation router) override;
  void on_router_lost(Incarnation router) override;
  void on_wake() override;
  void on_tick(TimePoint now) override;
  std::unique_ptr<engine::BatchPlan> plan_step() override;
  void on_step_done(engine::StepOutput output) override;
  void begin_drain() override { draining_ = true; }
  bool idle() const override { return runs_.empty(); }
  void fail_all(const Status& why) override;
  void on_stuck(bool stuck) override { agent_->set_stuck(stuck); }
  TimePoint last_transfer_turn() const override { return agent_->last_turn(); }
  Duration prompts_waiting() const override;
  void describe_load(wire::Heartbeat& heartbeat) override;

 private:
  // What the compute threads push while a step runs: fixed from its submission to its end.
  struct StepPush {
    kv_transfer::TransferId transfer = 0;
    int tokens = 0;  // written when the step's layer is
  };

  // Requests.
  void accept(wire::Prefill request, Incarnation router);
  Status check(const wire::Prefill& request) const;
  void cancel(const wire::Cancel& asked);
  PrefillRun* find(RequestId request);
  PrefillRun* find_transfer(kv_transfer::TransferId id);

  // Steps.
  int64_t priority(SequenceId id) const { return runs_.at(id)->request.body.priority; }
  void queue(std::deque<SequenceId>& runs, SequenceId id) const;
  using Parked = std::unordered_map<Incarnation, int>;  // blocks, by decode worker
  Parked parked_blocks() const;
  bool must_wait(const PrefillRun& run, Parked& parked) const;
  size_t next_to_start(size_t from, Parked& parked) const;
  bool start_waiting(size_t place, Parked& parked);
  bool try_start(PrefillRun& run);
  int window_need(const PrefillRun& run) const;
  void feed(PrefillRun& run, int count, engine::BatchPlan& plan);
  void finish_prompt(PrefillRun& run, const engine::SequenceOutput& output);

  // Hand-over.
  void open_transfer(PrefillRun& run);
  void announce_written(const PrefillRun& run);
  bool pushed_in_step(const PrefillRun& run) const;
  void on_event(const kv_transfer::Event& event);
  void on_acked(const kv_transfer::TransferAcked& acked);
  void on_failed(const kv_transfer::TransferFailed& failed);

  // Results and ends.
  void send_tokens(const PrefillRun& run, const wire::CommittedChoice& choice);
  void send_timings(const PrefillRun& run);
  void fail(PrefillRun& run, const Status& why, uint32_t retry_after_ms = 0);
  void close(PrefillRun& run, const std::string& reason);
  void erase_if_quiet(PrefillRun& run);

  worker::Environment& env_;
  worker::ChunkSizer sizer_;
  worker::Tombstones tombstones_;
  BoundedQueue<kv_transfer::Event> events_;
  std::unique_ptr<kv_transfer::TransferAgent> agent_;
  std::unordered_map<SequenceId, std::unique_ptr<PrefillRun>> runs_;
  std::unordered_map<RequestId, SequenceId> by_request_;  // closing runs are not in it
  std::unordered_map<kv_transfer::TransferId, SequenceId> by_transfer_;
  // Both by priority; equal ones in order of arrival, or of their start.
  std::deque<SequenceId> waiting_;
  std::deque<SequenceId> computing_;
  std::vector<StepPush> step_pushes_;
  int window_promised_ = 0;  // blocks of each window group, sum over the runs that started
  uint64_t next_sequence_ = 1;
  bool draining_ = false;
  metrics::Counter computed_tokens_;
  metrics::Gauge running_gauge_, waiting_gauge_;
};

}  // namespace baton::prefill_worker
