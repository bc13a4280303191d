#pragma once

// The scheduler of a decode worker: one continuous batch. Every step feeds each running choice its
// last token, and beside them a chunk of prompts that are prefilled here, sized by time. Admission
// is over hand-overs and local prompts together: the most urgent first (RunBody::priority), equal
// ones first come, first served. When blocks run out the youngest of the least urgent lanes is
// preempted and computed again later; while one waits nothing is admitted that is not more urgent.
// Lives on the worker loop's thread.
//
// decode_role.cc: requests, results, ends. decode_tickets.cc: admission and hand-over.
// decode_steps.cc: the batch. decode_beams.cc: choices that are beams.

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/bounded_queue.h"
#include "common/worker/chunk_sizer.h"
#include "common/worker/role.h"
#include "common/worker/tombstones.h"
#include "common/worker/worker_program.h"
#include "decode_worker/decode_run.h"
#include "kv_transfer/transfer.h"

namespace baton::decode_worker {

class DecodeRole final : public worker::Role {
 public:
  explicit DecodeRole(worker::Environment& env);
  ~DecodeRole() override;

  // Opens the transfer agent; before any other call.
  Status start(const kv_transfer::AgentOptions& options);
  std::string transfer_address() const { return agent_->listen_address(); }

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
  void describe_load(wire::Heartbeat& heartbeat) override;

 private:
  using Lanes = std::map<SequenceId, std::unique_ptr<Lane>>;  // oldest first

  // Requests.
  void accept(wire::Run request, Incarnation router);
  Status check(const wire::RunBody& body) const;
  DecodeRun& add_run(wire::RunBody body, Incarnation router);
  bool refuse_stale(const RunKey& key);
  void cancel(const wire::Cancel& asked);
  DecodeRun* find(RequestId request);
  DecodeRun* find_reservation(uint64_t reservation);

  // Admission and hand-over.
  void admit();
  bool may_overtake_preempted(const DecodeRun& run) const;
  bool try_admit(DecodeRun& run);
  // `held`: blocks that were found and count as available no more.
  bool fits(const DecodeRun& run, const kv_cache::PerGroup<int>& found, int kv_tokens,
            const kv_cache::Leases& held) const;
  int max_step() const { return static_cast<int>(env_.entry.max_chunk_tokens); }
  void take_slots(DecodeRun& run, int kv_tokens);
  void release_slots(DecodeRun& run, int count);
  void grant(DecodeRun& run, kv_cache::BlockPools::Parts parts);
  void prefill_here(DecodeRun& run, kv_cache::BlockPools::Hit hit, kv_cache::BlockPools::Part part);
  void on_event(kv_transfer::Event event);
  void on_reserve(kv_transfer::ReserveArrived reserve);
  void on_committed(kv_transfer::TransferCommitted committed);
  Status check_commit(const DecodeRun& run, const wire::Commit& commit) const;
  void on_ticket_over(uint64_t reservation, bool released, const Status& why);

  // Steps.
  SequenceId new_sequence() { return SequenceId{next_sequence_++}; }
  std::vector<Lane*> by_urgency() const;
  Lane& add_lane(worker::Sequence sequence, DecodeRun& run, int choice);
  void fork_ready(engine::BatchPlan& plan);
  void fork(DecodeRun& run, engine::BatchPlan& plan);
  void preempt(Lane& lane);
  bool can_resume(const worker::Sequence& sequence, const kv_cache::BlockPools::Hit& hit) const;
  void resume_preempted();
  bool feed(Lane& lane, int count, engine::BatchPlan& plan);
  bool make_room(const Lane& lane);
  int chunk_for(const Lane& lane, int budget) const;
  void feed_decoding(engine::BatchPlan& plan);
  void feed_prompts(engine::BatchPlan& plan);
  void lane_done(Lane& lane, engine::SequenceOutput& output);
  void base_done(Lane& lane, const engine::SequenceOutput& output);
  void take_sample(DecodeRun& run, int choice, const sampling::Sampled& sampled);

  // Beam search.
  std::unique_ptr<Beams> make_beams(const wire::RunBody& body) const;
  void beam_done(Lane& lane, const engine::SequenceOutput& output);
  void advance_beams(DecodeRun& run, const std::vector<wire::TokenLogprob>& rows);
  std::vector<worker::Sequence> take_beam_sequences(DecodeRun& run);
  void fork_beams(DecodeRun& run, engine::BatchPlan& plan);
  bool preempt_waiting_beams();

  // Results and ends.
  void send_tokens(DecodeRun& run, int choice, uint32_t first_index, std::vector<TokenId> ids,
                   std::vector<wire::TokenLogprob> logprobs);
  void fail(DecodeRun& run, const Status& why);
  void close(DecodeRun& run, const std::string& reason);
  void retire(DecodeRun& run);
  void close_lane(Lane& lane);
  void erase_if_quiet(DecodeRun& run);
  void finish_if_done(DecodeRun& run);

  worker::Environment& env_;
  worker::ChunkSizer sizer_;
  worker::SmoothedRate decode_step_ms_;
  worker::Tombstones tombstones_;
  BoundedQueue<kv_transfer::Event> events_;
  std::unique_ptr<kv_transfer::TransferAgent> agent_;
  std::unordered_map<uint64_t, std::unique_ptr<DecodeRun>> runs_;
  std::unordered_map<RequestId, uint64_t> by_request_;  // closing runs are not in it
  std::unordered_map<uint64_t, uint64_t> by_reservation_;
  std::deque<uint64_t> admission_;  // by priority; equal ones in order of arrival
  Lanes lanes_;
  int preempted_ = 0;
  int slots_ = 0;    // sums over the admitted runs
  int growing_ = 0;  // the watermark: blocks kept free so that what runs can go on
  uint64_t next_run_ = 1;
  uint64_t next_sequence_ = 1;
  bool draining_ = false;
  metrics::Counter computed_tokens_, preemptions_;
  metrics::Gauge running_gauge_, waiting_gauge_;
};

}  // namespace baton::decode_worker
