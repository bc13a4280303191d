#include "deploy/baton/serve_bench/load_run.h"

#include <algorithm>
#include <utility>

namespace baton::serve_bench {
namespace {

constexpr Duration kTick = 100ms;

}  // namespace

std::optional<Duration> RequestRecord::tpot() const {
  if (tokens < 2) {
    return std::nullopt;
  }
  return (last_token - first_token) / (tokens - 1);
}

bool RequestRecord::meets(const Slo& slo) const {
  return complete() && ttft() <= slo.ttft && tpot().value_or(Duration::zero()) <= slo.tpot;
}

// One request on its way.
class LoadRun::InFlight final : public AnswerObserver {
 public:
  InFlight(LoadRun& run, const RequestRecord& begun) : record(begun), run_(run) {}

  void on_tokens(TimePoint at) override {
    if (record.events == 0) {
      record.first_token = at;
    } else {
      run_.out_.gaps.add(at - record.last_token);
    }
    record.last_token = at;
    ++record.events;
  }
  void on_end(const AnswerEnd& end) override { run_.ended(place, end); }

  RequestRecord record;
  Flights::iterator place;

 private:
  LoadRun& run_;
};

LoadRun::LoadRun(CompletionPort& port, LoadSpec spec) : port_(port), spec_(std::move(spec)) {}
LoadRun::~LoadRun() = default;

RunOutcome LoadRun::run() {
  prepare_next();
  out_.start = port_.now();
  out_.end = out_.start;
  for (int i = 0; i < spec_.concurrency; ++i) {
    start_client();
  }
  TimePoint next_tick = out_.start + kTick;
  while (!stopping_) {
    const TimePoint now = port_.now();
    send_due(now);
    landed_.clear();
    if (flights_.empty() && all_sent()) {
      break;
    }
    if (now >= next_tick) {
      next_tick = now + kTick;
      if (!tick(now)) {
        stop();
        break;
      }
      start_waiting_clients();
    }
    TimePoint until = next_tick;
    if (next_arrival_ < spec_.arrivals.size()) {
      until = std::min(until, out_.start + spec_.arrivals[next_arrival_].offset);
    }
    port_.run_until(until);
  }
  return std::move(out_);
}

bool LoadRun::all_sent() const {
  return next_arrival_ == spec_.arrivals.size() && (waiting_clients_ == 0 || !may_start());
}

void LoadRun::send_due(TimePoint now) {
  while (next_arrival_ < spec_.arrivals.size() && !stopping_) {
    const PlannedRequest& planned = spec_.arrivals[next_arrival_];
    const TimePoint scheduled = out_.start + planned.offset;
    if (scheduled > now) {
      return;
    }
    ++next_arrival_;
    CompletionCall call = *std::move(next_call_);
    next_call_.reset();
    launch(planned, std::move(call), scheduled);
    prepare_next();
  }
}

// A long prompt takes its time to write: that is done before the request is due.
void LoadRun::prepare_next() {
  if (next_arrival_ < spec_.arrivals.size()) {
    next_call_ = spec_.make_call(spec_.arrivals[next_arrival_], numbers_++);
  }
}

bool LoadRun::may_start() const {
  return !stopping_ && !source_dry_ &&
         (spec_.window <= Duration::zero() || port_.now() < out_.start + spec_.window);
}

void LoadRun::start_client() {
  if (!may_start()) {
    return;
  }
  const std::optional<PlannedRequest> planned = spec_.next();
  source_dry_ = !planned.has_value();
  if (planned) {
    CompletionCall call = spec_.make_call(*planned, numbers_++);
    launch(*planned, std::move(call), port_.now());
  }
}

void LoadRun::start_waiting_clients() {
  for (int waiting = std::exchange(waiting_clients_, 0); waiting > 0; --waiting) {
    start_client();
  }
}

void LoadRun::launch(const PlannedRequest& planned, CompletionCall call, TimePoint scheduled) {
  RequestRecord record;
  record.scheduled = scheduled;
  record.sent = port_.now();
  record.wanted_tokens = planned.output_tokens;
  call.timeout = std::max<Duration>(scheduled + spec_.request_timeout - record.sent, 1ms);
  const auto place = flights_.emplace(flights_.end(), std::make_unique<InFlight>(*this, record));
  (*place)->place = place;
  ++out_.sent;
  port_.start(std::move(call), **place);
}

void LoadRun::ended(Flights::iterator flight, const AnswerEnd& end) {
  RequestRecord& record = (*flight)->record;
  record.outcome = end.outcome;
  record.ended = end.at;
  record.prompt_tokens = end.prompt_tokens;
  record.counted_by_server = end.completion_tokens >= 0;
  record.tokens = record.counted_by_server ? end.completion_tokens : record.events;
  if (end.outcome == Outcome::kStopped) {
    ++out_.unfinished;
  } else {
    out_.end = std::max(out_.end, end.at);
    missed_ += !record.meets(spec_.slo);
    if (record.events > 0) {
      ttft_.add(record.ttft());
    }
    if (!record.complete()) {
      ++failed_;
      Failures& failures = out_.failures[outcome_label(end.outcome, end.http_status)];
      if (failures.count++ == 0) {
        failures.first_message = end.message;
      }
    }
    out_.records.push_back(record);
  }
  landed_.splice(landed_.end(), flights_, flight);
  if (spec_.concurrency > 0 && end.outcome == Outcome::kComplete) {
    start_client();
  } else if (spec_.concurrency > 0) {
    ++waiting_clients_;  // a server that is gone is not asked again at once
  }
  if (flights_.empty() && all_sent()) {
    port_.interrupt();
  }
}

size_t LoadRun::misses(TimePoint now) const {
  size_t late = 0;
  for (const auto& flight : flights_) {
    late += flight->record.events == 0 && now > flight->record.scheduled + spec_.slo.ttft;
  }
  return missed_ + late;
}

bool LoadRun::tick(TimePoint now) {
  if (spec_.most_misses != SIZE_MAX && misses(now) > spec_.most_misses) {
    out_.hopeless = true;
    return false;
  }
  if (!spec_.on_tick) {
    return true;
  }
  const RunProgress progress{.elapsed = now - out_.start,
                             .sent = out_.sent,
                             .done = out_.records.size() - failed_,
                             .failed = failed_,
                             .running = flights_.size(),
                             .ttft_p50 = ttft_.percentile(0.5)};
  out_.interrupted = !spec_.on_tick(progress);
  return !out_.interrupted;
}

void LoadRun::stop() {
  stopping_ = true;
  port_.cancel_all();
  landed_.clear();
}

}  // namespace baton::serve_bench
