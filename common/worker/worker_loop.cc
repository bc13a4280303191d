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

WorkerLoop::WorkerLoop(Options options, const Clock& clock, engine::Engine& engine,
                       kv_cache::BlockPool& blocks, RouterLinks& links, metrics::Registry& registry,
                       const Waker& waker)
    : options_(options),
      clock_(clock),
      engine_(engine),
      blocks_(blocks),
      links_(links),
      waker_(waker),
      finished_({.items = 1}, [&waker] { waker.wake(); }),
      registry_(registry),
      step_prefill_(registry.histogram(metrics::MetricId::kEngineStepSeconds, {"prefill"})),
      step_decode_(registry.histogram(metrics::MetricId::kEngineStepSeconds, {"decode"})),
      step_mixed_(registry.histogram(metrics::MetricId::kEngineStepSeconds, {"mixed"})),
      batch_sequences_(registry.histogram(metrics::MetricId::kEngineBatchSequences)),
      step_tokens_(registry.histogram(metrics::MetricId::kIterationTokens)),
      cache_usage_(registry.gauge(metrics::MetricId::kKvCacheUsage)),
      cache_queries_(registry.counter(metrics::MetricId::kPrefixCacheQueries)),
      cache_hits_(registry.counter(metrics::MetricId::kPrefixCacheHits)) {}

void WorkerLoop::start_step(Role& role) {
  std::unique_ptr<engine::BatchPlan> plan = role.plan_step();
  if (plan == nullptr) {
    return;
  }
  step_prompt_rows_ = 0;
  size_t tokens = 0;
  for (const engine::SequencePlan& sequence : plan->sequences) {
    step_prompt_rows_ += sequence.tokens.size() > 1 ? 1 : 0;
    tokens += sequence.tokens.size();
  }
  step_tokens_.observe(static_cast<double>(tokens));
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
  const auto sequences = static_cast<int>(output->sequences.size());
  if (step_prompt_rows_ == 0) {
    step_decode_.observe(output->seconds);
  } else if (step_prompt_rows_ == sequences) {
    step_prefill_.observe(output->seconds);
  } else {
    step_mixed_.observe(output->seconds);
  }
  role.on_step_done(std::move(*output));
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
  const int used = blocks_.total() - counts.free - counts.cached;
  cache_usage_.set(static_cast<double>(used) / std::max(1, blocks_.total()));
  const kv_cache::BlockPool::CacheStats stats = blocks_.stats();
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
  heartbeat.blocks_total = static_cast<uint32_t>(blocks_.total());
  heartbeat.blocks_free = static_cast<uint32_t>(blocks_.available());
  constexpr size_t kMaxEvents = 4096;
  kv_cache::BlockPool::Events events = blocks_.take_events(kMaxEvents);
  heartbeat.cache_added = std::move(events.added);
  heartbeat.cache_removed = std::move(events.removed);
  heartbeat.cache_overflow = events.overflow;
  role.describe_load(heartbeat);
  links_.tick(now, heartbeat);
  export_metrics();
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
  wire::wait_readable(fds, next_tick_);
  waker_.clear();
}

void WorkerLoop::run(Role& role) {
  links_.set_handlers({[&role](wire::Message message, Incarnation router) {
                         role.on_message(std::move(message), router);
                       },
                       [&role](Incarnation router) { role.on_router_lost(router); }});
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
