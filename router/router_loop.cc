#include "router/router_loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/log.h"
#include "common/base/stop_signal.h"
#include "common/http/error.h"

namespace baton::router {
namespace {

constexpr Duration kTick = 50ms;
constexpr size_t kCommandQueue = 8192;
constexpr int kMessagesATurn = 4096;
// A worker that refuses, or a link that rests, may need a moment: after the second failure of a run
// the next attempt waits so long, then twice as long each time.
constexpr Duration kFirstPause = 100ms;

Duration pause_after(int failures) {
  return failures < 2 ? Duration::zero() : kFirstPause * (1 << (failures - 2));
}

}  // namespace

RouterLoop::RouterLoop(Options options, const Clock& clock, Random& random,
                       const tokenizer::Tokenizer& tokenizer, wire::Listener listener,
                       metrics::Registry& registry)
    : options_(std::move(options)),
      config_(*options_.config),
      clock_(clock),
      random_(random),
      tokenizer_(tokenizer),
      listener_(std::move(listener)),
      metrics_(registry),
      worker_wait_(config::scaled(config_, config_.router.worker_wait)),
      slo_ttft_(config::scaled(config_, config_.router.slo_ttft)),
      workers_(
          config::scaled(config_, config_.router.worker_timeout),
          [this](WorkerState& worker, std::string_view reason) { on_worker_lost(worker, reason); }),
      placement_(config_.router.local_prefill),
      wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      commands_({.items = kCommandQueue},
                [this] {
                  const uint64_t one = 1;
                  (void)!write(wake_fd_, &one, sizeof(one));
                }),
      load_(clock.now()) {
  BATON_CHECK(wake_fd_ >= 0, "eventfd failed");
}

RouterLoop::~RouterLoop() {
  commands_.close();
  close(wake_fd_);
}

bool RouterLoop::post(Command&& command) {
  return commands_.try_push(std::move(command)) == PushResult::kPushed;
}

Exchange* RouterLoop::find_exchange(uint64_t id) {
  const auto it = exchanges_.find(id);
  return it == exchanges_.end() ? nullptr : it->second.get();
}

RouterRun* RouterLoop::find_run(RequestId id) {
  const auto it = runs_.find(id);
  return it == runs_.end() ? nullptr : it->second.get();
}

void RouterLoop::send(Incarnation worker, const wire::Message& message) {
  if (const WorkerState* state = workers_.find(worker)) {
    // A worker that does not read is found by its missing heartbeats.
    (void)listener_.send(state->peer, message).ok();
  }
}

// ---------------------------------------------------------------- commands

void RouterLoop::take_commands() {
  while (std::optional<Command> command = commands_.try_pop()) {
    if (auto* begun = std::get_if<NewExchange>(&*command)) {
      begin(std::move(*begun));
    } else if (const auto* gone = std::get_if<ClientGone>(&*command)) {
      client_gone(gone->exchange);
    } else if (const auto* asked = std::get_if<StatusAsked>(&*command)) {
      answer_status(*asked);
    } else if (const auto* scraper = std::get_if<TargetsAsked>(&*command)) {
      answer_targets(*scraper);
    } else if (const auto* explain = std::get_if<ExplainAsked>(&*command)) {
      answer_explain(*explain);
    }
  }
}

// The loop ends: what still comes is answered, not left waiting.
void RouterLoop::refuse_commands() {
  commands_.close();
  take_commands();
}

Status RouterLoop::admit(const ApiRequest& request) {
  if (health_.draining) {
    return unavailable("the router is shutting down");
  }
  const int64_t waiting = waiting_runs_ + static_cast<int64_t>(parked_.size());
  if (waiting + static_cast<int64_t>(request.prompts.size()) > config_.router.max_waiting) {
    return resource_exhausted(std::to_string(waiting) + " requests are waiting, the limit is " +
                              std::to_string(config_.router.max_waiting));
  }
  return Status();
}

void RouterLoop::begin(NewExchange command) {
  const uint64_t id = command.options.id;
  auto made = std::make_unique<Exchange>(std::move(command.options), tokenizer_, metrics_);
  Exchange& exchange = *made;
  exchanges_.emplace(id, std::move(made));
  if (const Status status = admit(exchange.request()); !status.ok()) {
    fail_exchange(id, status, retry_after_ms());
    return;
  }
  exchange.accepted();
  const ApiRequest& request = exchange.request();
  for (const std::string& field : request.ignored) {
    metrics_.registry.counter(metrics::MetricId::kIgnoredRequestFields, {field}).add();
  }
  const uint64_t seed = request.seed_given ? request.sampling.seed : random_.next();
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    auto run = std::make_unique<RouterRun>();
    run->exchange = id;
    run->prompt_index = i;
    run->body.key.request.value = random_.next_u128();
    run->body.prompt = request.prompts[i].tokens;
    run->body.choices.resize(static_cast<size_t>(request.candidates()));
    run->body.sampling = request.sampling;
    if (request.best_of > request.n && request.sampling.logprobs < 0) {
      run->body.sampling.logprobs = 0;  // what the choices are compared by
    }
    run->body.prompt_logprobs = run->body.prompt.size() > 1 ? request.prompt_scores() : -1;
    run->body.sampling.seed = seed;
    run->body.cache_salt = request.cache_salt;
    run->body.whole_blocks = request.whole_blocks;
    run->body.priority = request.priority;
    run->body.router = options_.incarnation;
    for (int choice = 0; choice < request.candidates(); ++choice) {
      run->choices.emplace_back(
          tokenizer_, choice,
          ChoiceStream::Options{request.stop, request.include_stop_text,
                                request.skip_special_tokens, request.sampling.min_tokens,
                                request.sampling.stop_token_ids, request.answer.shown_ids});
    }
    RouterRun& placed = *run;
    const RequestId key = placed.key().request;
    runs_.emplace(key, std::move(run));
    exchange_runs_[id].push_back(key);
    if (const Status status = place_or_park(placed); !status.ok()) {
      fail_exchange(id, status, retry_after_ms());
      return;
    }
  }
}

void RouterLoop::client_gone(uint64_t id) {
  if (Exchange* exchange = find_exchange(id)) {
    exchange->abandon(clock_.now());
    drop_exchange(id, "client");
  }
}

// ---------------------------------------------------------------- workers' messages

bool RouterLoop::receive() {
  for (int taken = 0; taken < kMessagesATurn; ++taken) {
    std::optional<wire::Received> received = listener_.receive();
    if (!received) {
      return true;
    }
    if (!received->message.ok()) {
      log_warn("message dropped", {{"error", received->message.status().message()}});
      continue;
    }
    on_message(received->peer, std::move(received->message).value());
  }
  return false;
}

void RouterLoop::on_message(const std::string& peer, wire::Message message) {
  if (auto* tokens = std::get_if<wire::Tokens>(&message)) {
    on_tokens(std::move(*tokens));
  } else if (auto* prompt = std::get_if<wire::PromptLogprobs>(&message)) {
    on_prompt_logprobs(std::move(*prompt));
  } else if (auto* heartbeat = std::get_if<wire::Heartbeat>(&message)) {
    if (!workers_.heard(peer, std::move(*heartbeat), clock_.now())) {
      // It believes to be registered, but was given up here: after a refusal it registers again.
      (void)listener_.send(peer, wire::Welcome{options_.incarnation, false, "register again"}).ok();
    }
  } else if (const auto* registered = std::get_if<wire::Register>(&message)) {
    on_register(peer, *registered);
  } else if (const auto* failed = std::get_if<wire::RunFailed>(&message)) {
    on_failed(*failed);
  } else if (const auto* leg = std::get_if<wire::LegChanged>(&message)) {
    on_leg(*leg);
  } else if (const auto* goodbye = std::get_if<wire::Goodbye>(&message)) {
    workers_.leave(goodbye->incarnation, "left");
  } else {
    log_warn("unexpected message dropped");
  }
}

void RouterLoop::on_register(const std::string& peer, const wire::Register& message) {
  const std::string refusal = workers_.add(peer, message.info, clock_.now());
  update_health(clock_.now());  // who sees the worker in the status may use it
  (void)listener_.send(peer, wire::Welcome{options_.incarnation, refusal.empty(), refusal}).ok();
}

void RouterLoop::on_tokens(wire::Tokens tokens) {
  RouterRun* run = find_run(tokens.key.request);
  if (run == nullptr || tokens.key.attempt != run->key().attempt || tokens.key.leg < run->leg) {
    cancel_sender(tokens);  // it ended here, or this attempt or leg was given up
    return;
  }
  if (tokens.key.leg > run->leg && tokens.key.leg < run->decodes.size()) {
    run->leg = tokens.key.leg;
    assign_decode(*run, run->decodes[run->leg]);
    note_leg(*run, "");
  }
  if (!run->local && run->leg < run->decodes.size() && tokens.from == run->decodes[run->leg]) {
    run->handed_over = true;
    note_handed_over(*run);
  }
  if (tokens.timings) {
    merge_timings(*run, *tokens.timings);
  }
  take_tokens(*run, tokens);
}

void RouterLoop::note_leg(const RouterRun& run, const std::string& reason) {
  Exchange* exchange = find_exchange(run.exchange);
  if (exchange == nullptr) {
    return;
  }
  AttemptRecord& record = exchange->attempt(run.record);
  record.decode_worker = run.decode_names[run.leg];
  record.legs.push_back({clock_.now(), record.decode_worker, reason});
}

void RouterLoop::note_handed_over(const RouterRun& run) {
  if (Exchange* exchange = find_exchange(run.exchange)) {
    AttemptRecord& record = exchange->attempt(run.record);
    if (record.handed_over == TimePoint{}) {
      record.handed_over = clock_.now();
    }
  }
}

// The sender works on what nobody reads any more. Prefill workers are left out: theirs is at most
// one token, and the run may have moved on from there.
void RouterLoop::cancel_sender(const wire::Tokens& tokens) {
  const WorkerState* sender = workers_.find(tokens.from);
  if (sender != nullptr && sender->info.role == wire::Role::kDecode &&
      tokens.finish == wire::FinishReason::kNone) {
    send(tokens.from, wire::Cancel{tokens.key.request, tokens.key.attempt, "superseded"});
  }
}

void RouterLoop::merge_timings(RouterRun& run, const wire::RunTimings& timings) {
  const bool known = !run.timings.prefill_worker.empty();
  if (!std::exchange(run.cached_counted, true)) {
    if (Exchange* exchange = find_exchange(run.exchange)) {
      exchange->count_cached(timings.prompt_tokens_cached);
    }
  }
  // The sender's view of the transfer is the complete one; D's comes without the visible part.
  const bool complete = timings.transfer_visible_ms > 0 || run.timings.transport.empty();
  if (!known || complete) {
    run.timings = timings;
    if (Exchange* exchange = find_exchange(run.exchange)) {
      AttemptRecord& record = exchange->attempt(run.record);
      record.measured = true;
      record.timings = timings;
    }
  }
  if (!timings.transport.empty() && !run.local) {
    run.handed_over = true;
  }
}

void RouterLoop::take_tokens(RouterRun& run, const wire::Tokens& tokens) {
  if (tokens.ids.empty() && tokens.timings && run.beams() && !run.prefilled) {
    note_prefilled(run);  // its tokens come at the end
    expect_prefix(run);
  }
  if (tokens.ids.empty() || tokens.choice >= run.choices.size()) {
    return;
  }
  if (run.needs_prompt_logprobs()) {
    if (tokens.from == run.computing()) {
      fail_exchange(run.exchange, incompatible("the worker that computed the prompt does not tell "
                                               "its log-probabilities"));
    } else {
      run.held.push_back(tokens);
    }
    return;
  }
  if (!run.prefilled) {
    forecast_.observe(run.predicted_ttft_ms, to_ms(clock_.now() - run.placed),
                      to_ms(slo_ttft_) / 4);
    note_prefilled(run);
    expect_prefix(run);
  }
  Exchange* exchange = find_exchange(run.exchange);
  if (exchange == nullptr) {
    return;
  }
  ChoiceStream& choice = run.choices[tokens.choice];
  const TimePoint now = clock_.now();
  if (TimePoint& first = exchange->attempt(run.record).first_token; first == TimePoint{}) {
    first = now;
  }
  for (size_t i = 0; i < tokens.ids.size() && !choice.finished(); ++i) {
    const size_t index = tokens.first_index + i;
    if (index < choice.ids().size()) {
      continue;  // D repeats what P sent
    }
    if (index > choice.ids().size()) {
      ++run.failures;
      restart(run, internal_error("a worker skipped an output index"), "gap");
      return;
    }
    const bool last = i + 1 == tokens.ids.size();
    exchange->deliver(
        choice.push(tokens.ids[i], i < tokens.logprobs.size() ? &tokens.logprobs[i] : nullptr,
                    last ? tokens.finish : wire::FinishReason::kNone),
        run.prompt_index, run.record, now);
    run.ended_here |= choice.finished() && !(last && tokens.finish != wire::FinishReason::kNone);
  }
  if (!choice.finished() && tokens.finish != wire::FinishReason::kNone) {
    // Only repeated.
    exchange->deliver(choice.end(tokens.finish), run.prompt_index, run.record, now);
  }
  if (run.finished()) {
    end_run(run);
  } else if (!exchange->client_alive()) {
    client_gone(run.exchange);
  }
}

void RouterLoop::on_leg(const wire::LegChanged& changed) {
  RouterRun* run = find_run(changed.key.request);
  if (run != nullptr && changed.key.attempt == run->key().attempt && changed.key.leg > run->leg &&
      changed.key.leg < run->decodes.size()) {
    log_info("run goes to the next decode worker", {{"reason", changed.reason}});
    run->leg = changed.key.leg;
    run->handed_over = false;
    assign_decode(*run, run->decodes[run->leg]);
    note_leg(*run, changed.reason);
  }
}

void RouterLoop::on_failed(const wire::RunFailed& failed) {
  RouterRun* run = find_run(failed.key.request);
  if (run == nullptr || failed.key.attempt != run->key().attempt || failed.key.leg < run->leg) {
    return;
  }
  const Status why(failed.code, failed.message);
  if (failed.code == StatusCode::kWorkerLost || failed.code == StatusCode::kUnavailable) {
    const WorkerState* sender = workers_.find(failed.from);
    if (sender != nullptr && sender->health == WorkerHealth::kDraining) {
      restart(*run, why, "drain");  // it gives back what it cannot finish in time
      return;
    }
    ++run->failures;
    restart(*run, why, status_code_info(failed.code).label, pause_after(run->failures));
  } else {
    fail_exchange(run->exchange, why,
                  failed.retry_after_ms > 0 ? failed.retry_after_ms : retry_after_ms());
  }
}

void RouterLoop::on_worker_lost(WorkerState& worker, std::string_view reason) {
  std::vector<RequestId> affected;
  for (const auto& [id, run] : runs_) {
    if (run->lost_with(worker.id())) {
      affected.push_back(id);
    }
  }
  if (reason != "left") {
    suspect(affected);
  }
  const std::string kind = worker.info.role == wire::Role::kPrefill ? "prefill" : "decode";
  const Status why =
      worker_lost(kind + " worker " + worker.info.name + " is gone (" + std::string(reason) + ")");
  for (const RequestId id : affected) {
    if (RouterRun* run = find_run(id)) {
      run->failures += reason == "left" ? 0 : 1;
      restart(*run, why, reason == "left" ? "drain" : "worker_lost");
    }
  }
}

void RouterLoop::count_workers() {
  std::array<std::array<int, 2>, 2> count{};  // [decode][draining]
  for (const auto& [id, worker] : workers_.all()) {
    ++count[worker.info.role == wire::Role::kDecode][worker.health == WorkerHealth::kDraining];
  }
  metrics_.prefill_ready.set(count[0][0]);
  metrics_.prefill_draining.set(count[0][1]);
  metrics_.decode_ready.set(count[1][0]);
  metrics_.decode_draining.set(count[1][1]);
}

void RouterLoop::update_health(TimePoint now) {
  const bool prefill_needed = config_.router.local_prefill == config::LocalPrefill::kNever;
  // Before ready: who sees the router ready reads the context of its workers next.
  health_.max_context = workers_.max_context();
  health_.ready = !workers_.ready(wire::Role::kDecode).empty() &&
                  (!prefill_needed || !workers_.ready(wire::Role::kPrefill).empty());
  last_ready_ = health_.ready ? now : last_ready_;
}

void RouterLoop::tick(TimePoint now) {
  workers_.sweep(now, now - next_tick_);
  listener_.report_refused(now);
  update_health(now);
  std::vector<uint64_t> late;
  std::vector<uint64_t> gone;  // whose ClientGone found the queue full
  for (const auto& [id, exchange] : exchanges_) {
    if (!exchange->client_alive()) {
      gone.push_back(id);
    } else if (now - exchange->arrived() > config_.router.request_timeout) {
      late.push_back(id);
    }
  }
  count_workers();
  note_late_workers(now);
  metrics_.waiting.set(static_cast<double>(waiting_runs_));
  metrics_.running.set(static_cast<double>(runs_.size()) - static_cast<double>(waiting_runs_));
  for (const uint64_t id : gone) {
    client_gone(id);
  }
  retry_parked(now);
  for (const uint64_t id : late) {
    fail_exchange(id, deadline_exceeded("the request took longer than router.request_timeout"));
  }
}

bool RouterLoop::drained(TimePoint now) {
  if (!health_.draining) {
    if (!take_stop_signal(options_.stop_fd)) {
      return false;
    }
    health_.draining = true;
    drain_until_ = now + config_.router.drain;
    log_info("draining", {{"requests", exchanges_.size()}});
    options_.on_drain();
  }
  if (now >= drain_until_) {
    std::vector<uint64_t> rest;
    for (const auto& [id, exchange] : exchanges_) {
      rest.push_back(id);
    }
    for (const uint64_t id : rest) {
      fail_exchange(id, unavailable("the router is shutting down"));
    }
  }
  return exchanges_.empty();
}

// Workers then know that this was a stop and not a death.
void RouterLoop::say_goodbye() {
  for (const auto& [id, worker] : workers_.all()) {
    send(id, wire::Goodbye{options_.incarnation});
  }
}

void RouterLoop::wait(bool more) {
  std::vector<int> fds = workers_.process_fds();
  fds.resize(std::min<size_t>(fds.size(), 60));
  const size_t processes = fds.size();
  fds.push_back(listener_.poll_fd());
  fds.push_back(wake_fd_);
  if (!health_.draining && options_.stop_fd >= 0) {
    fds.push_back(options_.stop_fd);
  }
  const int ready = wire::wait_readable(fds, more ? TimePoint{} : next_tick_);
  fds.resize(processes);
  worker_ended_ = ready > 0 && wire::wait_readable(fds, TimePoint{}) > 0;
  uint64_t count = 0;
  (void)!read(wake_fd_, &count, sizeof(count));
}

void RouterLoop::run() {
  next_tick_ = clock_.now();
  while (true) {
    const TimePoint now = clock_.now();
    health_.last_turn_ns = now.time_since_epoch().count();
    receive();
    take_commands();
    const bool more = !receive();  // edge triggered: look again after every send
    if (std::exchange(worker_ended_, false)) {
      workers_.sweep_ended();  // not at the next tick: streams wait; after what it had still sent
    }
    if (now >= next_tick_) {
      tick(now);
      next_tick_ = now + kTick;
    }
    if (drained(now)) {
      refuse_commands();
      say_goodbye();
      return;
    }
    wait(more);
  }
}

}  // namespace baton::router
