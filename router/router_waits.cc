// Runs that have no worker at the moment: the workers died and come back, or the run is suspected
// of killing them and waits for one that has nothing else. Runs that would wait too long.

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "common/base/log.h"
#include "router/router_loop.h"

namespace baton::router {
namespace {

// Prompt tokens of one step of a prefill worker, generously: the runs at the head of its queue that
// they hold may have been in the step in which it died.
constexpr int64_t kStepTokens = 2'048;

}  // namespace

Status RouterLoop::place_or_park(RouterRun& run, const std::string& moved_because) {
  Status status = place(run, moved_because);
  if (status.code() != StatusCode::kUnavailable) {
    return status;
  }
  const TimePoint now = clock_.now();
  const TimePoint until = run.deaths >= kSuspectDeaths      ? TimePoint::max()
                          : last_ready_ == TimePoint::min() ? now
                                                            : last_ready_ + worker_wait_;
  if (now >= until) {
    return status;
  }
  park({.run = run.key().request,
        .moved_because = moved_because,
        .until = until,
        .priority = run.body.priority});
  return Status();
}

void RouterLoop::park(Parked waiting) {
  const auto at =
      std::upper_bound(parked_.begin(), parked_.end(), waiting.priority,
                       [](int64_t mine, const Parked& other) { return mine < other.priority; });
  parked_.insert(at, std::move(waiting));
}

void RouterLoop::retry_parked(TimePoint now) {
  std::vector<Parked> parked = std::exchange(parked_, {});
  for (Parked& waiting : parked) {
    RouterRun* run = find_run(waiting.run);
    if (run == nullptr) {
      continue;  // its client left, or a sibling failed
    }
    if (now < waiting.from) {
      park(std::move(waiting));
      continue;
    }
    const bool paused = waiting.from != TimePoint{};
    const Status status =
        paused ? place_or_park(*run, waiting.moved_because) : place(*run, waiting.moved_because);
    if (!paused && status.code() == StatusCode::kUnavailable && now < waiting.until) {
      park(std::move(waiting));
    } else if (!status.ok()) {
      const bool lost = status.code() == StatusCode::kUnavailable && !waiting.moved_because.empty();
      fail_exchange(run->exchange, lost ? worker_lost(waiting.moved_because) : status,
                    retry_after_ms());
    }
  }
}

Status RouterLoop::check_in_time(const RouterRun& run, const Placement& placement) {
  const bool begun = run.key().attempt > 0 || run.prompt_index > 0;
  if (slo_ttft_ == Duration::zero() || begun || placement.predicted.queue_ms <= 0) {
    return Status();
  }
  const WorkerState& worker = placement.local ? *placement.decodes[0] : *placement.prefill;
  const Exchange* exchange = find_exchange(run.exchange);
  const double waited = exchange == nullptr ? 0 : to_ms(clock_.now() - exchange->arrived());
  const double ttft_ms =
      waited + forecast_.at_most_ms(placement.predicted.ttft_ms()) + worker.late_ms;
  if (ttft_ms <= to_ms(slo_ttft_)) {
    return Status();
  }
  return resource_exhausted("the first token would come after " +
                            std::to_string(static_cast<int64_t>(ttft_ms)) + " ms, the limit is " +
                            std::to_string(static_cast<int64_t>(to_ms(slo_ttft_))) + " ms");
}

// A worker that stands still (its pool is full, its CPUs are taken) shows in the runs that wait.
void RouterLoop::note_late_workers(TimePoint now) {
  if (slo_ttft_ == Duration::zero()) {
    return;
  }
  std::unordered_map<Incarnation, double> late;
  for (const auto& [id, run] : runs_) {
    if (!run->prefilled) {
      double& worst = late[run->computing()];
      worst =
          std::max(worst, to_ms(now - run->placed) - forecast_.at_most_ms(run->predicted_ttft_ms));
    }
  }
  for (const wire::Role role : {wire::Role::kPrefill, wire::Role::kDecode}) {
    for (WorkerState* worker : workers_.ready(role)) {
      const auto it = late.find(worker->id());
      worker->late_ms = it == late.end() ? 0 : it->second;
    }
  }
}

uint32_t RouterLoop::retry_after_ms() {
  const double queue_ms = forecast_.at_most_ms(placement_.shortest_queue_ms(
      workers_.ready(wire::Role::kPrefill), workers_.ready(wire::Role::kDecode)));
  constexpr double kLeast = 1'000, kMost = 30'000;
  return static_cast<uint32_t>(std::clamp(queue_ms - to_ms(slo_ttft_), kLeast, kMost));
}

std::vector<WorkerState*> RouterLoop::decodes_for(const RouterRun& run) {
  std::vector<WorkerState*> decodes = workers_.ready(wire::Role::kDecode);
  if (alone_ && alone_->run != run.key().request && decodes.size() > 1) {
    std::erase_if(decodes,
                  [&](const WorkerState* worker) { return worker->id() == alone_->worker; });
  }
  return decodes;
}

// Its death must reach nobody else: it gets a worker that runs nothing, one of at least two, and
// nothing else goes there until it has ended. One run at a time.
Result<WorkerState*> RouterLoop::worker_alone(const RouterRun& run) {
  const RequestId id = run.key().request;
  if (alone_ && alone_->run != id) {
    return unavailable("another request is being tried alone");
  }
  WorkerState* worker = alone_ ? workers_.find(alone_->worker) : nullptr;
  const std::vector<WorkerState*> decodes = workers_.ready(wire::Role::kDecode);
  if (worker == nullptr || worker->health != WorkerHealth::kReady || decodes.size() < 2) {
    alone_.reset();
    if (decodes.size() < 2) {
      if (clock_.now() - last_death_ < worker_wait_) {
        return unavailable("waiting for a second decode worker");
      }
      return worker_crashed("the request was in the running step of " + std::to_string(run.deaths) +
                            " workers when they died, and there is no second decode worker to try "
                            "it alone on");
    }
    worker = *std::min_element(decodes.begin(), decodes.end(),
                               [](const WorkerState* a, const WorkerState* b) {
                                 return a->assigned_choices < b->assigned_choices;
                               });
    alone_ = {id, worker->id()};
    log_warn(
        "a request is tried alone",
        {{"request", to_hex(id.value)}, {"deaths", run.deaths}, {"worker", worker->info.name}});
  }
  const bool idle = worker->assigned_choices == 0 && worker->assigned_prompt_tokens == 0 &&
                    worker->load.running == 0 && worker->load.waiting == 0;
  return idle ? Result<WorkerState*>(worker) : unavailable("waiting for an idle worker");
}

// `runs` were with a worker that died. Those that may have been in its running step may be why.
void RouterLoop::suspect(const std::vector<RequestId>& runs) {
  last_death_ = clock_.now();
  std::vector<RouterRun*> waiting;
  for (const RequestId id : runs) {
    RouterRun* run = find_run(id);
    if (run->prefilled || run->handed_over) {
      ++run->deaths;
    } else {
      waiting.push_back(run);
    }
  }
  std::sort(waiting.begin(), waiting.end(),
            [](const RouterRun* a, const RouterRun* b) { return a->placed < b->placed; });
  int64_t tokens = 0;
  for (RouterRun* run : waiting) {
    if (tokens > 0 && tokens + run->assigned_tokens > kStepTokens) {
      break;
    }
    tokens += run->assigned_tokens;
    ++run->deaths;
  }
}

}  // namespace baton::router
