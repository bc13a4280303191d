#pragma once

// The router's one thread of state: workers, runs, exchanges. HTTP threads hand it requests through
// a bounded queue; workers talk to it over one ZeroMQ socket; it writes answers through responders,
// which never block.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "common/base/bounded_queue.h"
#include "common/base/random.h"
#include "common/config/config.h"
#include "common/wire/sockets.h"
#include "router/exchange.h"
#include "router/load_window.h"
#include "router/membership.h"
#include "router/placement.h"
#include "router/request_history.h"
#include "router/request_log.h"
#include "router/router_run.h"
#include "router/ttft_forecast.h"

namespace baton::router {

// What HTTP threads ask of the loop.
struct NewExchange {
  Exchange::Options options;
};
struct ClientGone {
  uint64_t exchange = 0;
};
struct StatusAsked {
  http::Headers headers;  // of the answer
  std::shared_ptr<http::Responder> responder;
};
struct TargetsAsked {
  http::Headers headers;  // of the answer
  std::shared_ptr<http::Responder> responder;
};
struct ExplainAsked {
  std::string id;         // x-request-id, or the answer's
  http::Headers headers;  // of the answer
  std::shared_ptr<http::Responder> responder;
};
using Command = std::variant<NewExchange, ClientGone, StatusAsked, TargetsAsked, ExplainAsked>;

// Read by HTTP threads.
struct RouterHealth {
  std::atomic<int64_t> last_turn_ns{0};
  std::atomic<bool> ready{false};
  std::atomic<bool> draining{false};
  std::atomic<int> max_context{0};
};

class RouterLoop {
 public:
  struct Options {
    const config::Config* config = nullptr;
    Incarnation incarnation;
    RequestLog* request_log = nullptr;  // may be null
    int stop_fd = -1;                   // signalfd
    std::function<void()> on_drain;     // stops accepting connections
  };
  RouterLoop(Options options, const Clock& clock, Random& random,
             const tokenizer::Tokenizer& tokenizer, wire::Listener listener,
             metrics::Registry& registry);
  ~RouterLoop();

  const RouterHealth& health() const { return health_; }
  // Thread-safe, never blocks. False when the queue is full or closed; `command` is then untouched.
  bool post(Command&& command);
  uint64_t next_exchange_id() { return next_exchange_.fetch_add(1) + 1; }

  // Runs until asked to stop and drained.
  void run();

 private:
  struct Parked {  // a run without a place
    RequestId run;
    std::string moved_because;
    TimePoint until{};
    TimePoint from{};  // not placed before: a pause between attempts
    int64_t priority = 0;
  };

  // Commands.
  void take_commands();
  void refuse_commands();
  void begin(NewExchange command);
  Status admit(const ApiRequest& request);
  void client_gone(uint64_t exchange);
  // Answers to operators (router_status.cc).
  void answer_status(const StatusAsked& asked);
  void answer_targets(const TargetsAsked& asked) const;
  void answer_explain(const ExplainAsked& asked);

  // Workers' messages. False when there may be more than one turn takes.
  bool receive();
  void on_message(const std::string& peer, wire::Message message);
  void on_register(const std::string& peer, const wire::Register& message);
  void on_tokens(wire::Tokens tokens);
  void take_tokens(RouterRun& run, const wire::Tokens& tokens);
  void on_prompt_logprobs(wire::PromptLogprobs message);
  void note_handed_over(const RouterRun& run);
  void note_leg(const RouterRun& run, const std::string& reason);
  void cancel_sender(const wire::Tokens& tokens);
  void merge_timings(RouterRun& run, const wire::RunTimings& timings);
  void on_failed(const wire::RunFailed& failed);
  void on_leg(const wire::LegChanged& changed);
  void on_worker_lost(WorkerState& worker, std::string_view reason);

  // Runs.
  // `moved_because`: why an earlier attempt ended; empty for the first.
  Status place(RouterRun& run, const std::string& moved_because = {});
  Result<Placement> choose(RouterRun& run);
  // place(), or a place in the queue of those that wait for a worker (router_waits.cc).
  Status place_or_park(RouterRun& run, const std::string& moved_because = {});
  void retry_parked(TimePoint now);
  void park(Parked waiting);
  // resource_exhausted for a request whose first token would come too late (router.slo_ttft). One
  // that has begun, or that nothing waits before, is never refused.
  Status check_in_time(const RouterRun& run, const Placement& placement);
  void note_late_workers(TimePoint now);
  // What a refused client should wait: until a prompt would be computed in time.
  uint32_t retry_after_ms();
  // Of a run that may be the cause of deaths: a worker that has nothing else.
  Result<WorkerState*> worker_alone(const RouterRun& run);
  std::vector<WorkerState*> decodes_for(const RouterRun& run);
  void suspect(const std::vector<RequestId>& runs);
  void record_attempt(RouterRun& run, Placement& placement, const std::string& moved_because);
  void send_run(RouterRun& run, const Placement& placement);
  void note_prefilled(RouterRun& run);
  void expect_prefix(const RouterRun& run);
  void release_load(RouterRun& run);
  void restart(RouterRun& run, const Status& why, std::string_view reason, Duration pause = {});
  void cancel_workers(const RouterRun& run, std::string_view reason);
  void end_run(RouterRun& run);
  void fail_exchange(uint64_t exchange, const Status& why, uint32_t retry_after_ms = 0);
  void drop_exchange(uint64_t exchange, std::string_view reason);
  void remember(RequestRecord record);
  void assign_decode(RouterRun& run, Incarnation decode);
  Exchange* find_exchange(uint64_t id);
  RouterRun* find_run(RequestId id);
  void send(Incarnation worker, const wire::Message& message);

  void tick(TimePoint now);
  void update_health(TimePoint now);
  void count_workers();
  bool drained(TimePoint now);
  void say_goodbye();
  void wait(bool more);

  static constexpr int kMaxFailures = 6;
  static constexpr uint16_t kLastAttempt = UINT16_MAX;
  // After so many deaths a run is tried alone; one more and it is held to be their cause.
  static constexpr int kSuspectDeaths = 2;

  struct Alone {  // the one run that is tried alone, and the worker that is kept for it
    RequestId run;
    Incarnation worker;
  };

  Options options_;
  const config::Config& config_;
  const Clock& clock_;
  Random& random_;
  const tokenizer::Tokenizer& tokenizer_;
  wire::Listener listener_;
  RouterMetrics metrics_;
  const Duration worker_wait_;
  const Duration slo_ttft_;
  Membership workers_;
  PlacementPolicy placement_;
  TtftForecast forecast_;
  int wake_fd_;
  BoundedQueue<Command> commands_;
  std::unordered_map<uint64_t, std::unique_ptr<Exchange>> exchanges_;
  std::unordered_map<uint64_t, std::vector<RequestId>> exchange_runs_;  // not ended
  std::unordered_map<RequestId, std::unique_ptr<RouterRun>> runs_;
  LoadWindow load_;
  RequestHistory history_;
  std::vector<Parked> parked_;  // by priority, equal ones in order of arrival
  std::optional<Alone> alone_;
  bool worker_ended_ = false;  // a process has ended, by its descriptor
  TimePoint last_death_{};
  TimePoint last_ready_ = TimePoint::min();  // when requests could last be placed
  int64_t waiting_runs_ = 0;                 // of them, those whose prefill is not over
  std::atomic<uint64_t> next_exchange_{0};
  TimePoint next_tick_{};
  TimePoint drain_until_ = TimePoint::max();
  RouterHealth health_;
};

}  // namespace baton::router
