// The life of a run between its placement and its end.

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/prefix_hash/prefix_hash.h"
#include "router/router_loop.h"

namespace baton::router {
namespace {

// The tokens whose KV a worker needs before the next token.
std::vector<TokenId> known_tokens(const wire::RunBody& body) {
  std::vector<TokenId> tokens = body.prompt;
  if (body.choices.size() == 1) {
    tokens.insert(tokens.end(), body.choices[0].output.begin(), body.choices[0].output.end());
  }
  return tokens;
}

PrefixChain chain_for(const WorkerState& worker, std::span<const TokenId> tokens,
                      std::string_view salt) {
  const wire::WorkerInfo& info = worker.info;
  const auto block = static_cast<int>(info.block_tokens);
  const U128 root =
      prefix_hash::root_hash(info.model_hash, info.numerics, static_cast<int>(info.segments), salt);
  return {block, prefix_hash::chain(root, tokens, block)};
}

// The block hashes of `tokens` at every block size that a worker has. All workers have the same
// model and numerics (Membership).
std::vector<PrefixChain> chains(std::span<const TokenId> tokens, std::string_view salt,
                                const std::vector<WorkerState*>& prefills,
                                const std::vector<WorkerState*>& decodes) {
  std::vector<PrefixChain> out;
  for (const auto* workers : {&prefills, &decodes}) {
    for (const WorkerState* worker : *workers) {
      const auto block = static_cast<int>(worker->info.block_tokens);
      const bool known = std::any_of(out.begin(), out.end(), [block](const PrefixChain& chain) {
        return chain.block_tokens == block;
      });
      if (!known && !worker->prefixes.empty()) {
        out.push_back(chain_for(*worker, tokens, salt));
      }
    }
  }
  return out;
}

}  // namespace

void RouterLoop::record_attempt(RouterRun& run, Placement& placement,
                                const std::string& moved_because) {
  Exchange* exchange = find_exchange(run.exchange);
  if (exchange == nullptr) {
    return;
  }
  AttemptRecord attempt;
  attempt.prompt = run.prompt_index;
  attempt.attempt = run.key().attempt;
  attempt.placed = clock_.now();
  attempt.decision = placement.decision;
  attempt.reason = placement.reason;
  attempt.moved_because = moved_because;
  attempt.predicted = placement.predicted;
  attempt.considered = std::move(placement.considered);
  attempt.prefill_worker = placement.local ? "" : placement.prefill->info.name;
  attempt.decode_worker = placement.decodes[0]->info.name;
  run.record = exchange->add_attempt(std::move(attempt));
}

Result<Placement> RouterLoop::choose(RouterRun& run) {
  std::vector<WorkerState*> prefills = workers_.ready(wire::Role::kPrefill);
  std::vector<WorkerState*> decodes = decodes_for(run);
  const bool alone = run.deaths >= kSuspectDeaths;
  if (alone) {
    BATON_ASSIGN_OR_RETURN(WorkerState* const worker, worker_alone(run));
    prefills.clear();
    decodes = {worker};
  }
  const bool needs_local = alone || (run.choices.size() > 1 && run.emitted() && !run.beams());
  // Before the prompt is hashed, which runs that wait would do again and again.
  BATON_RETURN_IF_ERROR(placement_.check_workers(needs_local, prefills, decodes));
  const std::vector<TokenId> tokens = known_tokens(run.body);
  PlacementRequest request;
  request.tokens = tokens;
  request.choices = static_cast<int>(run.choices.size());
  request.max_new_tokens = run.body.sampling.max_tokens;
  request.needs_local = needs_local;
  if (!run.needs_prompt_logprobs()) {  // else all of the prompt is computed anyway
    request.chains = chains(tokens, run.body.cache_salt, prefills, decodes);
  }
  BATON_ASSIGN_OR_RETURN(Placement placement, placement_.place(request, prefills, decodes));
  if (alone) {
    placement.reason = "alone";
  }
  return placement;
}

Status RouterLoop::place(RouterRun& run, const std::string& moved_because) {
  BATON_ASSIGN_OR_RETURN(Placement placement, choose(run));
  BATON_RETURN_IF_ERROR(check_in_time(run, placement));
  metrics_.registry
      .counter(metrics::MetricId::kRouterDecisions, {placement.decision, placement.reason})
      .add();
  if (Exchange* exchange = find_exchange(run.exchange)) {
    const Duration left = config_.router.request_timeout - (clock_.now() - exchange->arrived());
    run.body.deadline_ms = static_cast<uint32_t>(std::max(1.0, to_ms(left)));
  }
  record_attempt(run, placement, moved_because);
  send_run(run, placement);
  return Status();
}

void RouterLoop::send_run(RouterRun& run, const Placement& placement) {
  run.local = placement.local;
  run.handed_over = false;
  run.prefilled = false;
  run.predicted_ttft_ms = placement.predicted.ttft_ms();
  run.placed = last_ready_ = clock_.now();
  ++waiting_runs_;
  run.leg = 0;
  run.body.key.leg = 0;
  run.decodes.clear();
  run.decode_names.clear();
  run.timings = {};
  for (const WorkerState* decode : placement.decodes) {
    run.decodes.push_back(decode->id());
    run.decode_names.push_back(decode->info.name);
  }
  WorkerState& first = placement.local ? *placement.decodes[0] : *placement.prefill;
  run.prefill = placement.local ? Incarnation{} : first.id();
  run.assigned_tokens = static_cast<int64_t>(known_tokens(run.body).size());
  first.assigned_prompt_tokens += run.assigned_tokens;
  assign_decode(run, run.decodes[0]);
  if (placement.local) {
    send(first.id(), wire::Run{run.body});
    return;
  }
  wire::Prefill prefill;
  prefill.body = run.body;
  for (const WorkerState* decode : placement.decodes) {
    prefill.decodes.push_back({decode->info.name, decode->id(), decode->info.transfer_address});
  }
  send(first.id(), prefill);
}

// The prefill of this attempt is over: its tokens no longer wait at the worker.
void RouterLoop::note_prefilled(RouterRun& run) {
  if (std::exchange(run.prefilled, true)) {
    return;
  }
  --waiting_runs_;
  if (WorkerState* worker = workers_.find(run.computing())) {
    worker->assigned_prompt_tokens -= run.assigned_tokens;
    worker->prefilled_since_heard += run.assigned_tokens;
  }
}

// The worker has the prompt's blocks now, but says so with a later heartbeat only: the same prompt
// sent again at once should find them.
void RouterLoop::expect_prefix(const RouterRun& run) {
  if (WorkerState* worker = workers_.find(run.computing())) {
    worker->prefixes.expect(chain_for(*worker, known_tokens(run.body), run.body.cache_salt).hashes);
  }
}

// Counts the run's choices at another decode worker; at none for 0.
void RouterLoop::assign_decode(RouterRun& run, Incarnation decode) {
  const auto choices = static_cast<int64_t>(run.choices.size());
  if (WorkerState* worker = workers_.find(run.assigned_decode)) {
    worker->assigned_choices -= choices;
  }
  run.assigned_decode = decode;
  if (WorkerState* worker = workers_.find(decode)) {
    worker->assigned_choices += choices;
  }
}

void RouterLoop::release_load(RouterRun& run) {
  note_prefilled(run);
  assign_decode(run, Incarnation{});
  if (alone_ && alone_->run == run.key().request) {
    alone_.reset();
  }
}

void RouterLoop::cancel_workers(const RouterRun& run, std::string_view reason) {
  const wire::Cancel cancel{run.key().request, run.key().attempt, std::string(reason)};
  if (run.prefill.value != 0) {
    send(run.prefill, cancel);
  }
  for (const Incarnation decode : run.decodes) {
    send(decode, cancel);
  }
}

// Another worker goes on from what the client has: prompt and output so far, the same seed and
// positions, so the stream continues with the tokens that it would have had.
void RouterLoop::restart(RouterRun& run, const Status& why, std::string_view reason,
                         Duration pause) {
  release_load(run);
  cancel_workers(run, "superseded");
  if (Exchange* exchange = find_exchange(run.exchange)) {
    exchange->attempt(run.record).ended = clock_.now();
  }
  if (run.deaths > kSuspectDeaths) {
    fail_exchange(run.exchange, worker_crashed("the request was in the running step of " +
                                               std::to_string(run.deaths) +
                                               " workers when they died, the last time alone"));
    return;
  }
  if (run.failures >= kMaxFailures || run.key().attempt == kLastAttempt) {
    fail_exchange(run.exchange, why, retry_after_ms());
    return;
  }
  ++run.body.key.attempt;
  // A beam search starts again and repeats what it has told.
  for (size_t i = 0; i < run.choices.size() && !run.beams(); ++i) {
    run.body.choices[i].output = run.choices[i].ids();
    run.body.choices[i].finished = run.choices[i].finish();
  }
  run.decodes.clear();
  run.prefill = Incarnation{};
  run.prompt_logprobs.clear();
  run.held.clear();
  const bool moved = run.emitted();
  if (pause > Duration::zero()) {
    park({.run = run.key().request,
          .moved_because = why.message(),
          .from = clock_.now() + pause,
          .priority = run.body.priority});
  } else if (const Status status = place_or_park(run, why.message()); !status.ok()) {
    fail_exchange(run.exchange, status.code() == StatusCode::kUnavailable ? why : status,
                  retry_after_ms());
    return;
  }
  if (moved) {
    metrics_.registry.counter(metrics::MetricId::kStreamsMoved, {reason}).add();
  }
  const Exchange* exchange = find_exchange(run.exchange);
  log_info("run moved", {{"request", exchange ? exchange->record().answer_id : std::string()},
                         {"reason", why.to_string()},
                         {"attempt", run.key().attempt}});
}

// The last of them lets the output that waited through.
void RouterLoop::on_prompt_logprobs(wire::PromptLogprobs message) {
  RouterRun* run = find_run(message.key.request);
  if (run == nullptr || message.key.attempt != run->key().attempt ||
      !run->needs_prompt_logprobs() || message.from != run->computing()) {
    return;
  }
  const size_t wanted = run->body.prompt.size() - 1;
  size_t place = message.first - 1;  // the first token has none
  if (place > run->prompt_logprobs.size()) {
    ++run->failures;
    restart(*run, internal_error("a worker skipped log-probabilities of the prompt"), "gap");
    return;
  }
  for (wire::TokenLogprob& logprob : message.logprobs) {
    if (place++ == run->prompt_logprobs.size() && place <= wanted) {
      run->prompt_logprobs.push_back(std::move(logprob));
    }
  }
  Exchange* exchange = find_exchange(run->exchange);
  if (run->prompt_logprobs.size() < wanted || exchange == nullptr) {
    return;
  }
  run->body.prompt_logprobs = -1;
  exchange->take_prompt_logprobs(run->prompt_index, std::exchange(run->prompt_logprobs, {}));
  for (const wire::Tokens& tokens : std::exchange(run->held, {})) {
    if (RouterRun* still = find_run(message.key.request)) {
      take_tokens(*still, tokens);
    }
  }
}

// Every choice of the run ended.
void RouterLoop::end_run(RouterRun& run) {
  const uint64_t id = run.exchange;
  const wire::RunTimings timings = run.timings;
  const std::string decode =
      run.leg < run.decode_names.size() ? run.decode_names[run.leg] : std::string();
  if (run.ended_here) {
    cancel_workers(run, "stop");
  }
  release_load(run);
  const RequestId key = run.key().request;
  runs_.erase(key);
  std::vector<RequestId>& left = exchange_runs_[id];
  std::erase(left, key);
  if (left.empty()) {
    if (Exchange* exchange = find_exchange(id)) {
      exchange->finish(clock_.now(), timings, decode);
    }
    drop_exchange(id, "finished");
  }
}

void RouterLoop::fail_exchange(uint64_t id, const Status& why, uint32_t retry_after_ms) {
  if (Exchange* exchange = find_exchange(id)) {
    exchange->fail(why, retry_after_ms, clock_.now());
  }
  drop_exchange(id, "failed");
}

// The end of a request: what stays of it.
void RouterLoop::remember(RequestRecord record) {
  load_.add(ended_request(record));
  if (options_.request_log != nullptr) {
    options_.request_log->write(log_line(record));
  }
  history_.add(std::move(record));
}

void RouterLoop::drop_exchange(uint64_t id, std::string_view reason) {
  const auto it = exchange_runs_.find(id);
  if (it != exchange_runs_.end()) {
    for (const RequestId key : it->second) {
      if (RouterRun* run = find_run(key)) {
        release_load(*run);
        cancel_workers(*run, reason);
        runs_.erase(key);
      }
    }
    exchange_runs_.erase(id);
  }
  if (Exchange* exchange = find_exchange(id)) {
    remember(exchange->take_record());
    exchanges_.erase(id);
  }
}

}  // namespace baton::router
