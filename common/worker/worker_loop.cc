#include "common/worker/worker_loop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/stop_signal.h"
#include "common/worker/give_way.h"

namespace baton::worker {

Waker::Waker() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  BATON_CHECK(fd_ >= 0, "eventfd failed");
}
Waker::~Waker() { close(fd_); }
void Waker::wake() const {
  const uint64_t one = 1;
  // A full counter is readable already, which is all that is wanted.
  (void)!write(fd_, &one, sizeof(one));
}
void Waker::clear() const {
  uint64_t count = 0;
  (void)!read(fd_, &count, sizeof(count));
}

WorkerLoop::KindMetrics::KindMetrics(metrics::Registry& registry, std::string_view kind)
    : seconds(registry.histogram(metrics::MetricId::kEngineStepSeconds, {kind})),
      flops(registry.counter(metrics::MetricId::kEngineFlops, {kind})),
      bytes(registry.counter(metrics::MetricId::kEngineBytes, {kind})),
      roofline_seconds(registry.counter(metrics::MetricId::kEngineRooflineSeconds, {kind})) {}

WorkerLoop::WorkerLoop(Options options, const Clock& clock, engine::Engine& engine,
                       kv_cache::BlockPools& blocks, RouterLinks& links,
                       metrics::Registry& registry, const Waker& waker)
    : options_(options),
      clock_(clock),
      engine_(engine),
      blocks_(blocks),
      links_(links),
      waker_(waker),
      finished_({.items = 1}, [&waker] { waker.wake(); }),
      registry_(registry),
      prefill_steps_(registry, "prefill"),
      decode_steps_(registry, "decode"),
      mixed_steps_(registry, "mixed"),
      batch_sequences_(registry.histogram(metrics::MetricId::kEngineBatchSequences)),
      step_tokens_(registry.histogram(metrics::MetricId::kIterationTokens)),
      cache_usage_(registry.gauge(metrics::MetricId::kKvCacheUsage)),
      peak_flops_(registry.gauge(metrics::MetricId::kMachinePeakFlops)),
      peak_bytes_(registry.gauge(metrics::MetricId::kMachinePeakBytesPerSecond)),
      borrowed_seconds_(registry.counter(metrics::MetricId::kBorrowedCpuSeconds)),
      cache_queries_(registry.counter(metrics::MetricId::kPrefixCacheQueries)),
      cache_hits_(registry.counter(metrics::MetricId::kPrefixCacheHits)),
      preemptions_(registry.counter(metrics::MetricId::kPreemptions)) {}

// Neighbours on the same CPUs make a probe too low, never too high: the highest of a few counts.
void WorkerLoop::probe_machine() {
  constexpr Duration kProbeTime = 8ms;  // of arithmetic, and as much of reading
  constexpr Duration kPause = 2s;
  raise_peak(engine_.probe(kProbeTime));
  --probes_left_;
  next_probe_ = clock_.now() + kPause;
}

void WorkerLoop::raise_peak(const model::MachineProbe& reached) {
  peak_.flops = std::max(peak_.flops, reached.flops);
  peak_.read_bytes_per_s = std::max(peak_.read_bytes_per_s, reached.read_bytes_per_s);
  peak_flops_.set(peak_.flops);
  peak_bytes_.set(peak_.read_bytes_per_s);
}

void WorkerLoop::start_step(Role& role) {
  if (options_.steps != nullptr) {
    options_.steps->set_waiting(options_.slot, role.prompts_waiting());
  }
  if (clock_.now() < next_step_) {
    return;
  }
  std::unique_ptr<engine::BatchPlan> plan = role.plan_step();
  if (plan == nullptr) {
    if (std::exchange(at_work_, false) && options_.steps != nullptr) {
      options_.steps->rest(options_.slot);
    }
    return;
  }
  at_work_ = true;
  step_ = {};
  step_.sequences = static_cast<int>(plan->sequences.size());
  for (const engine::SequencePlan& sequence : plan->sequences) {
    const bool prompt = sequence.tokens.size() > 1 || options_.prompts_only;
    (prompt ? step_.prompt_tokens : step_.decode_tokens) +=
        static_cast<int>(sequence.tokens.size());
  }
  step_cost_ = engine::step_cost(engine_, *plan);
  step_tokens_.observe(step_.prompt_tokens + step_.decode_tokens);
  batch_sequences_.observe(static_cast<double>(plan->sequences.size()));
  step_running_ = true;
  health_.compute_moved_ns = clock_.now().time_since_epoch().count();
  health_.step_running = true;
  engine_.submit(std::move(plan), [this](engine::StepOutput output) {
    BATON_CHECK(finished_.try_push(std::move(output)) == PushResult::kPushed, "two steps at once");
  });
}

void WorkerLoop::finish_step(Role& role) {
  std::optional<engine::StepOutput> output = finished_.try_pop();
  if (!output) {
    return;
  }
  step_running_ = false;
  health_.step_running = false;
  observe_step(output->seconds, output->borrowed_seconds);
  role.on_step_done(std::move(*output));
  give_way();
}

void WorkerLoop::give_way() {
  if (options_.steps == nullptr || step_.prompt_tokens > 0) {
    return;
  }
  const Duration pause = pause_for_prompts(from_seconds(step_.seconds),
                                           options_.steps->longest_waiting(options_.slot));
  if (pause > Duration(0)) {
    options_.steps->rest(options_.slot);
    next_step_ = clock_.now() + pause;
  }
}

void WorkerLoop::observe_step(double seconds, double borrowed_seconds) {
  step_.ended = clock_.now();
  step_.seconds = seconds;
  borrowed_seconds_.add(borrowed_seconds);
  // The peaks are those of the worker's own CPUs: what others lent counts as so many more of them.
  const double own_seconds = seconds * engine_.threads();
  const double cpus = own_seconds > 0 ? 1 + borrowed_seconds / own_seconds : 1;
  if (seconds > 0) {  // what a step reaches the machine can do, whatever a disturbed probe said
    raise_peak({.flops = step_cost_.flops / (seconds * cpus),
                .read_bytes_per_s = step_cost_.bytes / (seconds * cpus)});
  }
  step_.roofline_seconds = engine::roofline_seconds(step_cost_, peak_) / cpus;
  recent_steps_.add(step_);
  KindMetrics& kind = step_.prompt_tokens == 0   ? decode_steps_
                      : step_.decode_tokens == 0 ? prefill_steps_
                                                 : mixed_steps_;
  kind.seconds.observe(seconds);
  kind.flops.add(step_cost_.flops);
  kind.bytes.add(step_cost_.bytes);
  kind.roofline_seconds.add(step_.roofline_seconds);
}

void WorkerLoop::export_metrics() {
  const kv_cache::BlockCounts counts = blocks_.counts();
  const std::array<std::pair<std::string_view, int>, 5> states = {
      {{"free", counts.free},
       {"active", counts.active},
       {"cached", counts.cached},
       {"reserved", counts.reserved},
       {"quarantined", counts.quarantined}}};
  for (const auto& [state, count] : states) {
    registry_.gauge(metrics::MetricId::kKvBlocks, {state}).set(count);
  }
  cache_usage_.set(blocks_.usage());
  const kv_cache::BlockPools::CacheStats stats = blocks_.stats();
  cache_queries_.add(static_cast<double>(stats.query_tokens - exported_.query_tokens));
  cache_hits_.add(static_cast<double>(stats.hit_tokens - exported_.hit_tokens));
  exported_ = stats;
}

void WorkerLoop::watch_step(Role& role, TimePoint now) {
  const uint64_t compute = engine_.progress();
  const bool moved = health_.compute_ticks.exchange(compute) != compute;
  // Whoever watches late was perhaps stopped together with the compute threads.
  const bool late = now - last_tick_ > options_.heartbeat + options_.stuck_after / 5;
  last_tick_ = now;
  if (moved || late) {
    health_.compute_moved_ns = now.time_since_epoch().count();
  }
  const Duration still = now.time_since_epoch() - Duration(health_.compute_moved_ns.load());
  role.on_stuck(step_running_ && still > options_.stuck_after);
  health_.transfer_turn_ns = role.last_transfer_turn().time_since_epoch().count();
}

void WorkerLoop::tick(Role& role) {
  const TimePoint now = clock_.now();
  watch_step(role, now);
  role.on_tick(now);
  wire::Heartbeat heartbeat;
  heartbeat.incarnation = options_.incarnation;
  heartbeat.draining = health_.draining;
  heartbeat.loop_ticks = ++ticks_;
  heartbeat.compute_ticks = health_.compute_ticks;
  heartbeat.step_running = step_running_;
  describe_blocks(heartbeat);
  constexpr size_t kMaxEvents = 4096;
  kv_cache::BlockPool::Events events = blocks_.take_events(kMaxEvents);
  heartbeat.cache_added = std::move(events.added);
  heartbeat.cache_removed = std::move(events.removed);
  heartbeat.cache_overflow = events.overflow;
  role.describe_load(heartbeat);
  const kv_cache::BlockPools::CacheStats stats = blocks_.stats();
  heartbeat.recent =
      recent_steps_.summary(now, {static_cast<double>(stats.query_tokens),
                                  static_cast<double>(stats.hit_tokens), preemptions_.value()});
  links_.tick(now, heartbeat);
  export_metrics();
  if (probes_left_ > 0 && now >= next_probe_ && !step_running_ && role.idle()) {
    probe_machine();
  }
}

void WorkerLoop::describe_blocks(wire::Heartbeat& heartbeat) const {
  for (int g = 0; g < blocks_.groups(); ++g) {
    const auto total = static_cast<uint32_t>(blocks_.pool(g).total());
    const auto available = static_cast<uint32_t>(blocks_.pool(g).available());
    if (blocks_.group(g).kind == kv_cache::CacheKind::kWindow) {
      heartbeat.window_blocks_total = total;
      heartbeat.window_blocks_free = available;
    } else {
      heartbeat.blocks_total = total;
      heartbeat.blocks_free = available;
    }
  }
}

void WorkerLoop::begin_drain(Role& role) {
  health_.draining = true;
  drain_until_ = clock_.now() + options_.drain_limit;
  log_info("draining", {{"limit_s", to_seconds(options_.drain_limit)}});
  role.begin_drain();
  tick(role);  // the routers should know at once
}

bool WorkerLoop::drained(Role& role, TimePoint now) {
  if (!health_.draining) {
    return false;
  }
  if (!role.idle() && now >= drain_until_) {
    if (!drain_failed_all_) {
      log_warn("drain limit reached, ending what still runs");
      drain_failed_all_ = true;
      drain_until_ = now + options_.drain_grace;
      role.fail_all(unavailable("worker is shutting down"));
    } else if (!std::exchange(leave_anyway_, true)) {
      log_warn("leaving while hand-overs still hold blocks");
    }
  }
  return !step_running_ && (role.idle() || leave_anyway_);
}

void WorkerLoop::wait() {
  std::vector<int> fds = links_.poll_fds();
  fds.push_back(waker_.fd());
  if (!health_.draining && options_.stop_fd >= 0) {
    fds.push_back(options_.stop_fd);
  }
  const bool pausing = next_step_ > clock_.now();
  wire::wait_readable(fds, pausing ? std::min(next_step_, next_tick_) : next_tick_);
  waker_.clear();
}

void WorkerLoop::run(Role& role) {
  links_.set_handlers({[&role](wire::Message message, Incarnation router) {
                         role.on_message(std::move(message), router);
                       },
                       [&role](Incarnation router) { role.on_router_lost(router); }});
  probe_machine();  // before the first step, so that each has its share
  while (true) {
    const TimePoint now = clock_.now();
    health_.last_turn_ns = now.time_since_epoch().count();
    links_.poll();
    health_.registered = links_.welcomed() > 0;
    role.on_wake();
    finish_step(role);
    if (!step_running_) {
      start_step(role);
    }
    if (now >= next_tick_) {
      tick(role);
      next_tick_ = now + options_.heartbeat;
    }
    if (!health_.draining && take_stop_signal(options_.stop_fd)) {
      begin_drain(role);
    }
    if (drained(role, now)) {
      break;
    }
    if (!links_.sent_since_poll()) {
      wait();
    }
  }
  links_.send_all(wire::Goodbye{options_.incarnation});
}

}  // namespace baton::worker
