#include "prefill_worker/prefill_role.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "common/wire/codec.h"
#include "common/worker/prompt_scores.h"
#include "common/worker/run_convert.h"
#include "common/worker/run_select.h"

namespace baton::prefill_worker {
namespace {

// Longer than any lease, so that a tombstone outlives every message that it must refuse.
constexpr Duration kTombstoneTime = 64s;
// Grants and final events of all open transfers fit many times over.
constexpr size_t kEventQueue = 1 << 16;

// Why nobody took the KV, as the router should act on it. The limits of the hand-over and who ended
// it are no limit and no wish of the request, for which another try may do.
Status for_router(const Status& why) {
  const bool of_the_request =
      why.code() != StatusCode::kDeadlineExceeded && why.code() != StatusCode::kCancelled;
  return of_the_request ? why : unavailable("the hand-over failed: " + why.message());
}

}  // namespace

PrefillRole::PrefillRole(worker::Environment& env)
    : env_(env),
      sizer_(env.entry.chunk_time, static_cast<int>(env.entry.max_chunk_tokens)),
      tombstones_(config::scaled(env.config, kTombstoneTime)),
      events_({.items = kEventQueue}, [&waker = env.waker] { waker.wake(); }),
      computed_tokens_(env.registry.counter(metrics::MetricId::kPromptTokensComputed)),
      running_gauge_(env.registry.gauge(metrics::MetricId::kRequestsRunning)),
      waiting_gauge_(env.registry.gauge(metrics::MetricId::kRequestsWaiting)) {}

PrefillRole::~PrefillRole() {
  agent_.reset();  // before the runs: it still reads their blocks
}

Status PrefillRole::start(const kv_transfer::AgentOptions& options) {
  BATON_ASSIGN_OR_RETURN(
      agent_,
      kv_transfer::TransferAgent::create(
          options, env_.clock, env_.random, env_.registry, [this](kv_transfer::Event event) {
            BATON_CHECK(events_.try_push(std::move(event)) == PushResult::kPushed,
                        "transfer events overflow");
          }));
  env_.engine.set_kv_written([this](int rank, int layer) {
    for (const StepPush& push : step_pushes_) {
      agent_->layer_written(push.transfer, rank, layer, push.tokens);
    }
  });
  return Status();
}

PrefillRun* PrefillRole::find(RequestId request) {
  const auto it = by_request_.find(request);
  return it == by_request_.end() ? nullptr : runs_.at(it->second).get();
}

PrefillRun* PrefillRole::find_transfer(kv_transfer::TransferId id) {
  const auto it = by_transfer_.find(id);
  return it == by_transfer_.end() ? nullptr : runs_.at(it->second).get();
}

// ---------------------------------------------------------------- requests

void PrefillRole::on_message(wire::Message message, Incarnation router) {
  if (auto* prefill = std::get_if<wire::Prefill>(&message)) {
    accept(std::move(*prefill), router);
  } else if (const auto* asked = std::get_if<wire::Cancel>(&message)) {
    cancel(*asked);
  } else {
    log_warn("unexpected message dropped", {{"kind", wire::message_name(message)}});
  }
}

Status PrefillRole::check(const wire::Prefill& request) const {
  if (draining_) {
    return unavailable("prefill worker " + env_.entry.name + " is shutting down");
  }
  if (waiting_.size() >= static_cast<size_t>(env_.entry.max_waiting)) {
    return resource_exhausted("the queue of prefill worker " + env_.entry.name + " is full");
  }
  const model::ModelDescription& model = env_.engine.description();
  BATON_RETURN_IF_ERROR(worker::check_body(request.body, model.vocab, model.max_context));
  if (!request.decodes.empty() && request.body.key.leg >= request.decodes.size()) {
    return invalid_argument("leg " + std::to_string(request.body.key.leg) + " of " +
                            std::to_string(request.decodes.size()) + " decode workers");
  }
  const auto& choices = request.body.choices;
  const bool moved = std::any_of(choices.begin(), choices.end(),
                                 [](const wire::ChoiceState& c) { return !c.output.empty(); });
  if (moved && choices.size() > 1) {
    return unsupported("a moved request with several choices goes to a decode worker directly");
  }
  const auto tokens = static_cast<int>(request.body.prompt.size() + choices[0].output.size());
  const kv_cache::BlockPool& pool = env_.blocks.pool(0);
  if (has_full_group(env_.blocks) && pool.blocks_for(tokens) > pool.total()) {
    return invalid_argument("prompt of " + std::to_string(tokens) +
                            " tokens does not fit the KV pool of prefill worker " +
                            env_.entry.name + " (" +
                            std::to_string(pool.total() * pool.block_tokens()) + " tokens)");
  }
  return Status();
}

void PrefillRole::accept(wire::Prefill request, Incarnation router) {
  const RunKey key = request.body.key;
  if (tombstones_.refuses(key)) {
    return;
  }
  if (PrefillRun* known = find(key.request)) {
    if (key.attempt <= known->key().attempt) {
      return;  // a duplicate
    }
    close(*known, "superseded");
  }
  if (const Status status = check(request); !status.ok()) {
    (void)env_.links
        .send(router, wire::RunFailed{key, env_.incarnation, status.code(), status.message(), 0})
        .ok();
    return;
  }
  std::vector<TokenId> tokens = request.body.prompt;
  const std::vector<TokenId>& output = request.body.choices[0].output;
  tokens.insert(tokens.end(), output.begin(), output.end());

  const SequenceId id{next_sequence_++};
  auto run = std::make_unique<PrefillRun>(id, std::move(tokens));
  run->request = std::move(request);
  run->router = router;
  run->arrived = env_.clock.now();
  if (run->request.body.deadline_ms > 0) {
    run->deadline = run->arrived + std::chrono::milliseconds(run->request.body.deadline_ms);
  }
  const model::ModelDescription& model = env_.engine.description();
  const auto grammar = worker::grammar_of(run->request.body.sampling, env_.grammars);
  const size_t samplers = run->beams() ? 1 : run->request.body.choices.size();
  for (size_t choice = 0; choice < samplers; ++choice) {
    run->samplers.push_back(
        worker::make_sampler(run->request.body, choice, model.vocab, model.max_context, grammar));
  }
  by_request_[key.request] = id;
  runs_.emplace(id, std::move(run));
  queue(waiting_, id);
}

void PrefillRole::cancel(const wire::Cancel& asked) {
  tombstones_.bury(asked.request, asked.attempt, env_.clock.now());
  PrefillRun* run = find(asked.request);
  if (run != nullptr && run->key().attempt <= asked.attempt) {
    close(*run, asked.reason);
  }
}

void PrefillRole::on_router_lost(Incarnation router) {
  for (PrefillRun* run :
       worker::select_runs(runs_, [router](const PrefillRun& r) { return r.router == router; })) {
    close(*run, "router lost");
  }
}

void PrefillRole::on_tick(TimePoint now) {
  tombstones_.sweep(now);
  const auto late = [now](const PrefillRun& r) {
    return r.state != RunState::kClosing && r.deadline <= now;
  };
  for (PrefillRun* run : worker::select_runs(runs_, late)) {
    fail(*run,
         deadline_exceeded("the request's deadline passed on prefill worker " + env_.entry.name));
  }
}

// ---------------------------------------------------------------- steps

void PrefillRole::feed(PrefillRun& run, int count, engine::BatchPlan& plan) {
  const bool last = count == run.sequence.pending();
  const int written = run.sequence.computed() + count;
  const int group = window_group(env_.blocks);
  const size_t known = group < 0 ? 0 : run.sequence.blocks(group).size();
  Result<engine::SequencePlan*> entry = run.sequence.feed(count, env_.blocks, plan);
  BATON_CHECK(entry.ok(), "a started prompt has all its blocks");
  if (group >= 0 && run.transfer != 0) {
    const std::span<const BlockId> more = run.sequence.blocks(group).subspan(known);
    agent_->add_blocks(run.transfer, group, {more.begin(), more.end()});
  }
  run.fed_in_step = count;
  worker::ask_for_scores(run.request.body, run.sequence, **entry);
  if (last) {
    for (sampling::SequenceSampler& sampler : run.samplers) {
      (*entry)->samples.push_back({&sampler});
    }
  }
  if (run.transfer != 0) {
    step_pushes_.push_back({run.transfer, written});
  }
}

std::unique_ptr<engine::BatchPlan> PrefillRole::plan_step() {
  auto plan = std::make_unique<engine::BatchPlan>();
  int budget = sizer_.budget();
  const auto room = [&] {
    return budget > 0 &&
           plan->sequences.size() < static_cast<size_t>(env_.entry.max_batch_sequences);
  };
  const auto feed_some = [&](PrefillRun& run) {
    const int wanted = std::min(budget, run.sequence.pending());
    const int count = run.sequence.at_most(wanted, run.window_blocks, env_.blocks);
    feed(run, count, *plan);
    budget -= count;
  };
  Parked parked = waiting_.empty() ? Parked() : parked_blocks();
  size_t first = next_to_start(0, parked);
  bool may_start = true;
  for (size_t next = 0; room();) {
    const bool begun = next < computing_.size();
    const bool starts = may_start && first < waiting_.size();
    const bool overtakes =
        starts && begun && priority(waiting_[first]) < priority(computing_[next]);
    if (starts && (!begun || overtakes)) {
      may_start = start_waiting(first, parked);
      first = next_to_start(
          first, parked);  // it stands at `next` then: behind it are only less urgent ones
    } else if (begun) {
      feed_some(*runs_.at(computing_[next++]));
    } else {
      break;
    }
  }
  return plan->sequences.empty() ? nullptr : std::move(plan);
}

void PrefillRole::on_step_done(engine::StepOutput output) {
  const int tokens = output.plan->total_tokens();
  sizer_.observe(tokens, output.seconds);
  computed_tokens_.add(tokens);
  for (engine::SequenceOutput& sequence : output.sequences) {
    PrefillRun& run = *runs_.at(sequence.id);
    const int count = std::exchange(run.fed_in_step, 0);
    if (run.state == RunState::kClosing) {
      erase_if_quiet(run);
      continue;
    }
    if (!sequence.error.ok()) {
      fail(run, sequence.error);
      continue;
    }
    if (!sequence.scores.empty()) {
      const int first = run.sequence.computed();
      (void)env_.links
          .send(run.router,
                worker::prompt_logprobs(run.request.body, env_.incarnation, first, sequence.scores))
          .ok();
    }
    run.sequence.fed(count, env_.blocks, run.request.body.cache_salt);
    ++run.timings.prefill_chunks;
    if (run.transfer != 0 && !pushed_in_step(run)) {
      announce_written(run);  // its transfer was opened while the step ran
    }
    if (run.sequence.pending() == 0) {
      finish_prompt(run, sequence);
    }
  }
  step_pushes_.clear();
}

void PrefillRole::finish_prompt(PrefillRun& run, const engine::SequenceOutput& output) {
  std::erase(computing_, run.sequence.id());
  run.timings.prefill_ms = to_ms(env_.clock.now() - run.started);
  bool all_finished = true;
  for (size_t i = 0; i < output.samples.size(); ++i) {
    const sampling::Sampled& sampled = output.samples[i];
    wire::CommittedChoice choice;
    choice.index = static_cast<uint32_t>(i);
    choice.output = {sampled.id};
    if (sampled.logprobs) {
      choice.logprobs = {worker::wire_logprob(*sampled.logprobs)};
    }
    choice.finished = worker::wire_finish(sampled.finish);
    all_finished = all_finished && choice.finished != wire::FinishReason::kNone;
    run.sampled.push_back(std::move(choice));
  }
  if (run.beams()) {
    send_timings(run);
  }
  for (const wire::CommittedChoice& choice : run.sampled) {
    if (!run.beams()) {
      send_tokens(run, choice);
    }
  }
  if (all_finished) {
    close(run, "finished");
    return;
  }
  run.state = RunState::kHandingOver;
  if (const int group = window_group(env_.blocks); group >= 0) {
    // It only keeps what it has from now on.
    const auto held = static_cast<int>(run.sequence.lease(group).held());
    window_promised_ -= std::exchange(run.window_blocks, held) - held;
  }
  agent_->commit(run.transfer, run.sampled, run.timings);
}

// ---------------------------------------------------------------- hand-over

void PrefillRole::open_transfer(PrefillRun& run) {
  const wire::RunBody& body = run.request.body;
  kv_transfer::OpenTransfer open;
  open.target = run.request.decodes[body.key.leg];
  open.body = body;
  open.kv_tokens = run.sequence.size();
  open.blocks.assign(run.sequence.blocks().begin(), run.sequence.blocks().end());
  open.window_blocks.assign(run.sequence.blocks(1).begin(), run.sequence.blocks(1).end());
  open.deadline = run.deadline;
  run.granted = false;
  run.transfer = agent_->open(std::move(open));
  by_transfer_[run.transfer] = run.sequence.id();
  announce_written(run);
}

// What has been computed, or was cached, before the transfer opened goes out at once.
void PrefillRole::announce_written(const PrefillRun& run) {
  if (run.sequence.stored() == 0) {
    return;
  }
  for (int layer = 0; layer < env_.engine.description().layers; ++layer) {
    for (int rank = 0; rank < env_.engine.ranks(); ++rank) {
      agent_->layer_written(run.transfer, rank, layer, run.sequence.stored());
    }
  }
}

bool PrefillRole::pushed_in_step(const PrefillRun& run) const {
  return std::any_of(step_pushes_.begin(), step_pushes_.end(),
                     [&run](const StepPush& push) { return push.transfer == run.transfer; });
}

void PrefillRole::on_wake() {
  while (std::optional<kv_transfer::Event> event = events_.try_pop()) {
    on_event(*event);
  }
}

void PrefillRole::on_event(const kv_transfer::Event& event) {
  if (const auto* acked = std::get_if<kv_transfer::TransferAcked>(&event)) {
    on_acked(*acked);
  } else if (const auto* failed = std::get_if<kv_transfer::TransferFailed>(&event)) {
    on_failed(*failed);
  } else if (const auto* granted = std::get_if<kv_transfer::TransferGranted>(&event)) {
    if (PrefillRun* run = find_transfer(granted->id)) {
      run->granted = true;
    }
  } else if (const auto* lost = std::get_if<kv_transfer::PeerLost>(&event); lost && !draining_) {
    log_warn("peer lost", {{"peer", lost->name}, {"reason", lost->status.to_string()}});
  }
  // PeerUp and PeerLost change nothing here: the agent ends its transfers itself.
}

void PrefillRole::on_acked(const kv_transfer::TransferAcked& acked) {
  PrefillRun* run = find_transfer(acked.id);
  if (run == nullptr) {
    return;
  }
  by_transfer_.erase(acked.id);
  run->transfer = 0;
  if (run->state == RunState::kClosing) {
    erase_if_quiet(*run);
    return;
  }
  run->timings.transport = acked.transport;
  run->timings.transfer_ms = acked.seconds * 1e3;
  run->timings.transfer_visible_ms = acked.visible_seconds * 1e3;
  run->timings.transfer_bytes = acked.bytes;
  run->timings.first_data_ms = acked.first_data_seconds * 1e3;
  run->timings.grant_ms = acked.grant_seconds * 1e3;
  send_timings(*run);
  close(*run, "handed over");
}

void PrefillRole::on_failed(const kv_transfer::TransferFailed& failed) {
  PrefillRun* run = find_transfer(failed.id);
  if (run == nullptr) {
    return;
  }
  by_transfer_.erase(failed.id);
  run->transfer = 0;
  if (run->state == RunState::kClosing) {
    erase_if_quiet(*run);
    return;
  }
  wire::RunBody& body = run->request.body;
  const bool last = body.key.leg + 1u >= run->request.decodes.size();
  if (last && (!failed.data_lost || std::exchange(run->sent_again, true))) {
    fail(*run, for_router(failed.status), failed.retry_after_ms);
    return;
  }
  // The KV is still here: only the hand-over starts again, with the next decode worker. The last
  // one is asked once more when it lives and has only not got all of it.
  body.key.leg += last ? 0 : 1;
  log_info(
      last ? "hand-over starts again" : "hand-over goes to the next decode worker",
      {{"decode", run->request.decodes[body.key.leg].name}, {"reason", failed.status.to_string()}});
  if (!last) {
    const std::string_view reason = status_code_info(failed.status.code()).label;
    (void)env_.links
        .send(run->router, wire::LegChanged{body.key, env_.incarnation, std::string(reason)})
        .ok();
  }
  open_transfer(*run);
  if (run->state == RunState::kHandingOver) {
    agent_->commit(run->transfer, run->sampled, run->timings);
  }
}

// ---------------------------------------------------------------- results and ends

void PrefillRole::send_tokens(const PrefillRun& run, const wire::CommittedChoice& choice) {
  wire::Tokens tokens;
  tokens.key = run.key();
  tokens.from = env_.incarnation;
  tokens.choice = choice.index;
  tokens.first_index = static_cast<uint32_t>(run.request.body.choices[choice.index].output.size());
  tokens.ids = choice.output;
  tokens.logprobs = choice.logprobs;
  tokens.finish = choice.finished;
  if (choice.index == 0) {
    tokens.timings = run.timings;  // what is known before the hand-over is over
  }
  (void)env_.links.send(run.router, tokens).ok();  // a lost router ends its runs by itself
}

void PrefillRole::send_timings(const PrefillRun& run) {
  wire::Tokens tokens;
  tokens.key = run.key();
  tokens.from = env_.incarnation;
  tokens.timings = run.timings;
  (void)env_.links.send(run.router, tokens).ok();
}

void PrefillRole::fail(PrefillRun& run, const Status& why, uint32_t retry_after_ms) {
  (void)env_.links
      .send(run.router,
            wire::RunFailed{run.key(), env_.incarnation, why.code(), why.message(), retry_after_ms})
      .ok();
  close(run, why.message());
}

void PrefillRole::fail_all(const Status& why) {
  const auto open = [](const PrefillRun& r) { return r.state != RunState::kClosing; };
  for (PrefillRun* run : worker::select_runs(runs_, open)) {
    fail(*run, why);
  }
}

// Stops all work on a run. Its blocks stay until neither a step nor a transfer uses them.
void PrefillRole::close(PrefillRun& run, const std::string& reason) {
  if (run.state == RunState::kClosing) {
    return;
  }
  std::erase(waiting_, run.sequence.id());
  std::erase(computing_, run.sequence.id());
  run.state = RunState::kClosing;
  by_request_.erase(run.key().request);
  if (run.transfer != 0) {
    agent_->abort(run.transfer, reason);
  }
  erase_if_quiet(run);
}

void PrefillRole::erase_if_quiet(PrefillRun& run) {
  if (run.state == RunState::kClosing && !run.in_step() && run.transfer == 0) {
    window_promised_ -= run.window_blocks;
    const SequenceId id = run.sequence.id();
    runs_.erase(id);
  }
}

void PrefillRole::describe_load(wire::Heartbeat& heartbeat) {
  heartbeat.waiting = static_cast<uint32_t>(waiting_.size());
  heartbeat.running = static_cast<uint32_t>(runs_.size() - waiting_.size());
  for (const auto& [id, run] : runs_) {
    if (run->state == RunState::kWaiting || run->state == RunState::kComputing) {
      heartbeat.waiting_tokens += static_cast<uint32_t>(run->sequence.pending());
    }
  }
  heartbeat.prefill_tokens_per_s = sizer_.tokens_per_second();
  heartbeat.transfer_bytes_per_s = agent_->measured_bytes_per_s();
  for (const kv_transfer::TransferAgent::Link& link : agent_->links()) {
    heartbeat.links.push_back({link.peer, link.transport});
  }
  running_gauge_.set(heartbeat.running);
  waiting_gauge_.set(heartbeat.waiting);
}

}  // namespace baton::prefill_worker
