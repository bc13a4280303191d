#pragma once

// For tests of roles: a worker without its loop's thread, a router that keeps what it is told, and
// an oracle that says which tokens are right. All of it runs on the test's thread, which turns the
// worker step by step, so that a test can act between any two of them; only transfer agents and
// ZeroMQ have threads of their own.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/worker/worker_program.h"

namespace baton::worker {

// Listens where workers register, welcomes them, and collects what they send.
class FakeRouter {
 public:
  explicit FakeRouter(wire::Context& context, uint64_t incarnation = 77,
                      const std::string& address = "tcp://127.0.0.1:*");

  const std::string& address() const { return listener_->address(); }
  Incarnation incarnation() const { return incarnation_; }
  void pump();
  void refuse(std::string reason) { refusal_ = std::move(reason); }
  void send(const std::string& worker, const wire::Message& message);

  // Output of a choice by index, duplicates dropped. Fails the test when two differ.
  std::vector<TokenId> output(RequestId request, uint32_t choice = 0) const;
  wire::FinishReason finish(RequestId request, uint32_t choice = 0) const;
  bool finished(RequestId request, uint32_t choices = 1) const;
  // Puts tokens in place that came before the request moved here.
  void expect_after(RequestId request, uint32_t choice, std::vector<TokenId> output);

  std::map<std::string, wire::WorkerInfo> workers;
  std::map<std::string, wire::Heartbeat> heartbeats;  // the last one
  int registrations = 0;
  std::vector<wire::RunFailed> failed;
  std::vector<wire::LegChanged> legs;
  std::vector<wire::Tokens> tokens;
  // By place in the prompt; what is told twice must be equal.
  std::map<RequestId, std::map<uint32_t, wire::TokenLogprob>> prompt_logprobs;
  std::vector<wire::Goodbye> goodbyes;

 private:
  struct Stream {
    std::vector<TokenId> ids;
    wire::FinishReason finish = wire::FinishReason::kNone;
  };
  void take(const std::string& peer, wire::Message message);

  Incarnation incarnation_;
  std::optional<wire::Listener> listener_;
  std::string refusal_;
  std::map<std::string, std::string> peers_;  // by worker name
  std::map<std::string, std::string> names_;  // by routing id
  std::map<std::pair<U128, uint32_t>, Stream> streams_;
};

struct HostSetup {
  config::Role role = config::Role::kDecode;
  std::string name = "d0";
  uint64_t incarnation = 22;
  std::string model = "tests/data/models/tiny_q4_1.gguf";  // of the source tree, or absolute
  int ranks = 1;
  int segments = 1;
  int blocks = 64;
  int block_tokens = 32;
  int max_batch_sequences = 64;
  int max_chunk_tokens = 64;
  int max_waiting = 64;
  bool prefix_cache = true;
};

engine::EngineOptions tiny_engine(const HostSetup& setup);
// Over all blocks of the engine, empty.
std::unique_ptr<kv_cache::BlockPools> block_pools(const engine::Engine& engine, bool prefix_cache);

class RoleHost {
 public:
  RoleHost(const HostSetup& setup, wire::Context& context, const std::string& router);
  // The role goes first: its agent writes into the pool. Then every block must be free.
  ~RoleHost();

  Environment& env() { return *env_; }
  engine::Engine& engine() { return *engine_; }
  kv_cache::BlockPools& blocks() { return *blocks_; }
  RouterLinks& links() { return *links_; }
  Role& role() { return *role_; }
  void set_role(std::unique_ptr<Role> role, std::string transfer_address = {});
  void drop_role() { role_.reset(); }

  // Messages, events, timers, heartbeat.
  void serve();
  // Plans and computes a step, whose results are held back until end_step(). False when there was
  // nothing to compute.
  bool begin_step();
  void end_step();
  bool in_step() const { return output_.has_value(); }
  // serve() and a whole step, unless paused.
  void turn();
  bool paused = false;
  std::function<void()> in_a_step;  // called while one is computed

  // Nothing is in use: all blocks are free or cached.
  bool all_free() const { return blocks_->available() == blocks_->total(); }
  int steps = 0;
  int largest_batch = 0;
  double metric(metrics::MetricId id) { return registry_->counter(id).value(); }

 private:
  HostSetup setup_;
  SteadyClock clock_;
  SystemRandom random_;
  config::Config config_;
  config::Worker entry_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<kv_cache::BlockPools> blocks_;
  std::unique_ptr<metrics::Registry> registry_;
  Waker waker_;
  std::unique_ptr<RouterLinks> links_;
  grammar::GrammarCache grammars_;
  std::unique_ptr<Environment> env_;
  std::unique_ptr<Role> role_;
  std::optional<engine::StepOutput> output_;
  TimePoint next_tick_{};
};

// Turns everything until the condition holds; false after a minute.
bool until(FakeRouter& router, const std::vector<RoleHost*>& hosts,
           const std::function<bool()>& condition);

// Each choice of the body alone, prompt in one step: what every way of serving it must give.
class Oracle {
 public:
  explicit Oracle(const HostSetup& setup = {});
  std::vector<TokenId> output(const wire::RunBody& body, size_t choice = 0);
  engine::Engine& engine() { return *engine_; }

 private:
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<kv_cache::BlockPools> blocks_;
  grammar::GrammarCache grammars_;
};

// A request of seeded random tokens; greedy unless told otherwise.
wire::RunBody random_body(uint64_t request, int prompt_tokens, int max_tokens, Incarnation router,
                          size_t choices = 1);
// The same under another number of that kind.
wire::RunBody repeated(wire::RunBody body, uint64_t request);

}  // namespace baton::worker
