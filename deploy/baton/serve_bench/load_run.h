#pragma once

// Sends what was planned and records what came back. Open loop: every request leaves at its time,
// whatever became of the ones before. Closed loop: N clients, each with one request at a time.
// Everything happens on the thread that calls run().

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "deploy/baton/serve_bench/completion_port.h"
#include "deploy/baton/serve_bench/latency_histogram.h"
#include "deploy/baton/serve_bench/plan.h"

namespace baton::serve_bench {

// The limits that a request meets or misses.
struct Slo {
  Duration ttft = 1s;
  Duration tpot = 100ms;
};

struct RequestRecord {
  TimePoint scheduled;
  TimePoint sent;
  TimePoint first_token;  // of the first event with tokens; valid when events > 0
  TimePoint last_token;
  TimePoint ended;
  int wanted_tokens = 0;
  int64_t events = 0;  // that brought tokens
  int64_t tokens = 0;  // by the server's count, else one an event
  int64_t prompt_tokens = -1;
  bool counted_by_server = false;
  Outcome outcome = Outcome::kStopped;

  bool complete() const { return outcome == Outcome::kComplete; }
  Duration ttft() const { return first_token - scheduled; }
  // Mean time between tokens after the first; nothing for a single token.
  std::optional<Duration> tpot() const;
  bool meets(const Slo& slo) const;
};

struct Failures {
  size_t count = 0;
  std::string first_message;
};

struct RunProgress {
  Duration elapsed{};
  size_t sent = 0;
  size_t done = 0;
  size_t failed = 0;
  size_t running = 0;
  Duration ttft_p50{};
};

struct LoadSpec {
  // Open loop, in order of time.
  std::vector<PlannedRequest> arrivals;
  // Closed loop when concurrency > 0. No request starts after the end of the window.
  int concurrency = 0;
  std::function<std::optional<PlannedRequest>()> next;
  Duration window{};  // zero = unlimited

  Slo slo;
  Duration request_timeout = 120s;  // from the scheduled arrival
  // More misses than this end the run: for a search, which then knows enough.
  size_t most_misses = SIZE_MAX;
  // The call of a request; `number` counts from zero.
  std::function<CompletionCall(const PlannedRequest&, uint64_t number)> make_call;
  // Every 100 ms; false stops the run.
  std::function<bool(const RunProgress&)> on_tick;
};

struct RunOutcome {
  std::vector<RequestRecord> records;  // in order of their ends; without those that a stop ended
  LatencyHistogram gaps;               // between events of one answer
  std::map<std::string, Failures> failures;  // by label
  TimePoint start;
  TimePoint end;  // of the last answer
  size_t sent = 0;
  size_t unfinished = 0;  // ended by the stop
  bool interrupted = false;
  bool hopeless = false;  // more misses than most_misses
};

class LoadRun {
 public:
  LoadRun(CompletionPort& port, LoadSpec spec);
  ~LoadRun();
  LoadRun(const LoadRun&) = delete;
  LoadRun& operator=(const LoadRun&) = delete;

  // Returns when all that was sent has ended, or after a stop. Once.
  RunOutcome run();

 private:
  class InFlight;
  using Flights = std::list<std::unique_ptr<InFlight>>;

  void send_due(TimePoint now);
  void prepare_next();
  bool may_start() const;
  void start_client();
  void start_waiting_clients();
  void launch(const PlannedRequest& planned, CompletionCall call, TimePoint scheduled);
  void ended(Flights::iterator flight, const AnswerEnd& end);
  bool all_sent() const;
  bool tick(TimePoint now);
  size_t misses(TimePoint now) const;
  void stop();

  CompletionPort& port_;
  const LoadSpec spec_;
  RunOutcome out_;
  Flights flights_;
  Flights landed_;  // freed outside of their own calls
  size_t next_arrival_ = 0;
  std::optional<CompletionCall> next_call_;  // of next_arrival_, made ahead of its time
  uint64_t numbers_ = 0;
  bool source_dry_ = false;
  int waiting_clients_ = 0;  // their request failed: they go on at the next tick
  bool stopping_ = false;
  size_t missed_ = 0;  // of the records
  size_t failed_ = 0;
  LatencyHistogram ttft_;
};

}  // namespace baton::serve_bench
