#include "decode_worker/decode_role.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/wire/codec.h"
#include "common/worker/run_convert.h"
#include "common/worker/run_select.h"

namespace baton::decode_worker {
namespace {

// Longer than any lease, so that a tombstone outlives every message that it must refuse.
constexpr Duration kTombstoneTime = 64s;
// Events of all open tickets fit many times over.
constexpr size_t kEventQueue = 1 << 16;

}  // namespace

DecodeRole::DecodeRole(worker::Environment& env)
    : env_(env),
      sizer_(env.entry.chunk_time, static_cast<int>(env.entry.max_chunk_tokens)),
      tombstones_(config::scaled(env.config, kTombstoneTime)),
      events_({.items = kEventQueue}, [&waker = env.waker] { waker.wake(); }),
      computed_tokens_(env.registry.counter(metrics::MetricId::kPromptTokensComputed)),
      preemptions_(env.registry.counter(metrics::MetricId::kPreemptions)),
      running_gauge_(env.registry.gauge(metrics::MetricId::kRequestsRunning)),
      waiting_gauge_(env.registry.gauge(metrics::MetricId::kRequestsWaiting)) {}

DecodeRole::~DecodeRole() {
  agent_.reset();  // before the runs: it may still write into their blocks
}

Status DecodeRole::start(const kv_transfer::AgentOptions& options) {
  BATON_ASSIGN_OR_RETURN(
      agent_,
      kv_transfer::TransferAgent::create(
          options, env_.clock, env_.random, env_.registry, [this](kv_transfer::Event event) {
            BATON_CHECK(events_.try_push(std::move(event)) == PushResult::kPushed,
                        "transfer events overflow");
          }));
  return Status();
}

DecodeRun* DecodeRole::find(RequestId request) {
  const auto it = by_request_.find(request);
  return it == by_request_.end() ? nullptr : runs_.at(it->second).get();
}

// ---------------------------------------------------------------- requests

void DecodeRole::on_message(wire::Message message, Incarnation router) {
  if (auto* run = std::get_if<wire::Run>(&message)) {
    accept(std::move(*run), router);
  } else if (const auto* asked = std::get_if<wire::Cancel>(&message)) {
    cancel(*asked);
  } else {
    log_warn("unexpected message dropped", {{"kind", wire::message_name(message)}});
  }
}

Status DecodeRole::check(const wire::RunBody& body) const {
  if (draining_) {
    return unavailable("decode worker " + env_.entry.name + " is shutting down");
  }
  if (admission_.size() >= static_cast<size_t>(env_.entry.max_waiting)) {
    return resource_exhausted("the queue of decode worker " + env_.entry.name + " is full");
  }
  const model::ModelDescription& model = env_.engine.description();
  BATON_RETURN_IF_ERROR(worker::check_body(body, model.vocab, model.max_context));
  if (body.choices.size() > static_cast<size_t>(env_.entry.max_batch_sequences)) {
    return invalid_argument("n = " + std::to_string(body.choices.size()) +
                            " is more than the batch of decode worker " + env_.entry.name + " (" +
                            std::to_string(env_.entry.max_batch_sequences) + ")");
  }
  const int tokens = base_size(body);
  for (int g = 0; g < env_.blocks.groups(); ++g) {
    // Of a window group in the shortest steps.
    const int total = env_.blocks.pool(g).total();
    if (env_.blocks.most_blocks(g, tokens, 1) + tail_blocks(body, tokens, env_.blocks, g, 1) >
        total) {
      return invalid_argument("request of " + std::to_string(tokens) +
                              " tokens does not fit the KV pool of decode worker " +
                              env_.entry.name + " (" +
                              std::to_string(total * env_.blocks.block_tokens()) + " tokens)");
    }
  }
  return Status();
}

// A message of an attempt or leg that is over is dropped; an older run of the request ends.
bool DecodeRole::refuse_stale(const RunKey& key) {
  if (tombstones_.refuses(key)) {
    return true;
  }
  DecodeRun* known = find(key.request);
  if (known == nullptr) {
    return false;
  }
  const RunKey& old = known->body.key;
  if (std::pair(key.attempt, key.leg) <= std::pair(old.attempt, old.leg)) {
    return true;
  }
  close(*known, "superseded");
  return false;
}

DecodeRun& DecodeRole::add_run(wire::RunBody body, Incarnation router) {
  auto run = std::make_unique<DecodeRun>();
  run->id = next_run_++;
  run->router = router;
  run->arrived = env_.clock.now();
  if (body.deadline_ms > 0) {
    run->deadline = run->arrived + std::chrono::milliseconds(body.deadline_ms);
  }
  const model::ModelDescription& model = env_.engine.description();
  const auto grammar = worker::grammar_of(body.sampling, env_.grammars);
  for (size_t choice = 0; choice < body.choices.size(); ++choice) {
    run->samplers.push_back(
        worker::make_sampler(body, choice, model.vocab, model.max_context, grammar));
  }
  run->choices = body.choices;
  run->beams = make_beams(body);
  run->body = std::move(body);
  by_request_[run->body.key.request] = run->id;
  DecodeRun& added = *run;
  runs_.emplace(added.id, std::move(run));
  const auto place = std::upper_bound(
      admission_.begin(), admission_.end(), added.body.priority,
      [this](int64_t mine, uint64_t other) { return mine < runs_.at(other)->body.priority; });
  admission_.insert(place, added.id);
  return added;
}

void DecodeRole::accept(wire::Run request, Incarnation router) {
  const RunKey key = request.body.key;
  if (refuse_stale(key)) {
    return;
  }
  if (const Status status = check(request.body); !status.ok()) {
    (void)env_.links
        .send(router, wire::RunFailed{key, env_.incarnation, status.code(), status.message(), 0})
        .ok();
    return;
  }
  add_run(std::move(request.body), router);
}

void DecodeRole::cancel(const wire::Cancel& asked) {
  tombstones_.bury(asked.request, asked.attempt, env_.clock.now());
  DecodeRun* run = find(asked.request);
  if (run != nullptr && run->body.key.attempt <= asked.attempt) {
    close(*run, asked.reason);
  }
}

void DecodeRole::on_router_lost(Incarnation router) {
  for (DecodeRun* run :
       worker::select_runs(runs_, [router](const DecodeRun& r) { return r.router == router; })) {
    close(*run, "router lost");
  }
}

void DecodeRole::on_tick(TimePoint now) {
  tombstones_.sweep(now);
  const auto late = [now](const DecodeRun& r) {
    return r.state != RunState::kClosing && r.deadline <= now;
  };
  for (DecodeRun* run : worker::select_runs(runs_, late)) {
    fail(*run,
         deadline_exceeded("the request's deadline passed on decode worker " + env_.entry.name));
  }
}

// ---------------------------------------------------------------- results and ends

void DecodeRole::send_tokens(DecodeRun& run, int choice, uint32_t first_index,
                             std::vector<TokenId> ids, std::vector<wire::TokenLogprob> logprobs) {
  wire::Tokens tokens;
  tokens.key = run.body.key;
  tokens.from = env_.incarnation;
  tokens.choice = static_cast<uint32_t>(choice);
  tokens.first_index = first_index;
  tokens.ids = std::move(ids);
  tokens.logprobs = std::move(logprobs);
  tokens.finish = run.choices[static_cast<size_t>(choice)].finished;
  if (!std::exchange(run.timings_sent, true)) {
    tokens.timings = run.timings;
  }
  (void)env_.links.send(run.router, tokens).ok();  // a lost router ends its runs by itself
}

void DecodeRole::fail(DecodeRun& run, const Status& why) {
  (void)env_.links
      .send(run.router,
            wire::RunFailed{run.body.key, env_.incarnation, why.code(), why.message(), 0})
      .ok();
  close(run, why.message());
}

void DecodeRole::fail_all(const Status& why) {
  const auto open = [](const DecodeRun& r) { return r.state != RunState::kClosing; };
  for (DecodeRun* run : worker::select_runs(runs_, open)) {
    fail(*run, why);
  }
}

// Stops all work on a run. Its blocks stay until neither a step nor a transfer uses them.
void DecodeRole::close(DecodeRun& run, const std::string& reason) {
  if (run.state == RunState::kClosing) {
    return;
  }
  if (run.state == RunState::kReserving) {
    agent_->deny(run.reservation, cancelled(reason), 0);
    by_reservation_.erase(run.reservation);
  } else if (run.ticket_open) {
    agent_->abort_reservation(run.reservation, reason);
  }
  retire(run);
  run.base.reset();
  std::vector<Lane*> own;
  for (auto& [id, lane] : lanes_) {
    if (&lane->run == &run) {
      own.push_back(lane.get());
    }
  }
  for (Lane* lane : own) {
    close_lane(*lane);
  }
  erase_if_quiet(run);
}

// The run takes part in nothing any more; what still uses its blocks is waited for.
void DecodeRole::retire(DecodeRun& run) {
  if (run.state == RunState::kWaiting || run.state == RunState::kReserving) {
    std::erase(admission_, run.id);
  }
  release_slots(run, run.slots);
  by_request_.erase(run.body.key.request);
  run.state = RunState::kClosing;
}

// Ends a lane at once, or after the step that computes it.
void DecodeRole::close_lane(Lane& lane) {
  if (lane.preempted) {
    lane.preempted = false;
    --preempted_;
  }
  lane.closed = true;
  if (lane.fed_in_step == 0) {
    --lane.run.lanes;
    const SequenceId id = lane.sequence.id();
    lanes_.erase(id);
  }
}

void DecodeRole::erase_if_quiet(DecodeRun& run) {
  if (run.state == RunState::kClosing && run.lanes == 0 && !run.ticket_open) {
    by_reservation_.erase(run.reservation);
    const uint64_t id = run.id;
    runs_.erase(id);
  }
}

void DecodeRole::finish_if_done(DecodeRun& run) {
  const bool done = std::all_of(
      run.choices.begin(), run.choices.end(),
      [](const wire::ChoiceState& c) { return c.finished != wire::FinishReason::kNone; });
  if (done) {
    close(run, "finished");
  }
}

void DecodeRole::describe_load(wire::Heartbeat& heartbeat) {
  heartbeat.running = static_cast<uint32_t>(slots_);  // promised ones too: they will decode soon
  heartbeat.waiting = static_cast<uint32_t>(admission_.size());
  for (const auto& [id, lane] : lanes_) {
    if (lane->sequence.pending() > 1) {
      heartbeat.waiting_tokens += static_cast<uint32_t>(lane->sequence.pending());
    }
  }
  for (const uint64_t id : admission_) {
    const DecodeRun& run = *runs_.at(id);
    if (run.state == RunState::kWaiting) {
      heartbeat.waiting_tokens += static_cast<uint32_t>(run.prompt_tokens());
    }
  }
  heartbeat.prefill_tokens_per_s = sizer_.tokens_per_second();
  heartbeat.decode_step_ms = decode_step_ms_.value();
  heartbeat.transfer_bytes_per_s = agent_->measured_bytes_per_s();
  for (const kv_transfer::TransferAgent::Link& link : agent_->links()) {
    heartbeat.links.push_back({link.peer, link.transport});
  }
  running_gauge_.set(static_cast<double>(runs_.size() - admission_.size()));
  waiting_gauge_.set(heartbeat.waiting);
}

}  // namespace baton::decode_worker
