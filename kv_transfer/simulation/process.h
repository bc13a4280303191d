#pragma once

// One simulated process: a worker loop in small around the real core of the hand-over, with pools,
// a control port and a data path. It lives from its construction to its end; a worker that is
// started again is a new one with a new incarnation.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/metrics/registry.h"
#include "kv_transfer/core.h"
#include "kv_transfer/simulation/block_owners.h"
#include "kv_transfer/simulation/fabric.h"
#include "kv_transfer/simulation/network.h"
#include "kv_transfer/test_worker.h"

namespace baton::kv_transfer::simulation {

// What a schedule found; the first is what counts.
class Findings {
 public:
  void add(std::string what) {
    if (first_.empty()) {
      first_ = std::move(what);
    }
  }
  const std::string& first() const { return first_; }

 private:
  std::string first_;
};

struct World {
  FakeClock& clock;
  Dice& dice;
  const Faults& faults;
  Network& network;
  Fabric& fabric;
  const bool& puts;  // senders write into the pools of receivers
  Findings& findings;
  // Memory of processes that have ended, which others may still read.
  std::vector<std::unique_ptr<TestPools>>& graveyard;
  std::function<void(const std::string&)> note;  // for the trace of a schedule
};

class Process {
 public:
  Process(World& world, wire::Role role, std::string name, uint64_t incarnation,
          const TestShape& shape);
  virtual ~Process();

  const std::string& name() const { return name_; }
  Incarnation incarnation() const { return incarnation_; }
  std::string address() const { return "net/" + name_; }
  const std::string& path_address() const { return path_->address(); }
  TransferCore& core() { return *core_; }
  TestPools& pools() { return *pools_; }

  bool stopped() const { return world_.clock.now() < stopped_until_; }
  void stop(Duration time) { stopped_until_ = world_.clock.now() + time; }

  // One turn: messages, data, timers, then the worker's own work.
  void turn();
  // The block that memory of this process lies in; nothing when it is in none.
  std::optional<BlockId> block_of(const std::byte* memory) const;
  const BlockOwners& owners() const { return owners_; }

 protected:
  virtual void on_event(Event event) = 0;
  virtual void work() = 0;
  void violation(const std::string& what) { world_.findings.add(name_ + ": " + what); }

  World& world_;
  const wire::Role role_;
  const std::string name_;
  const Incarnation incarnation_;
  std::unique_ptr<TestPools> pools_;
  BlockOwners owners_;

 private:
  metrics::Registry registry_;
  TransferMetrics metrics_;
  Port port_;
  std::unique_ptr<SimulatedPath> path_;
  std::deque<Event> events_;
  std::unique_ptr<TransferCore> core_;
  TimePoint next_poll_;
  TimePoint stopped_until_{};
};

// A prefill of one request on its way to one decode worker.
struct Prefill {
  uint64_t request = 0;
  int attempt = 0;
  int tokens = 0;
  int computed = 0;        // tokens with KV
  int layers_written = 0;  // of the last chunk
  int chunk_end = 0;
  bool committed = false;
  std::vector<BlockId> blocks;
};

class PrefillProcess final : public Process {
 public:
  // `ended(request, status)` once for each start(), unless the process ends first.
  using Ended = std::function<void(uint64_t request, const Status& status)>;
  PrefillProcess(World& world, const std::string& name, uint64_t incarnation,
                 const TestShape& shape, Ended ended);
  ~PrefillProcess() override = default;

  // False when there are no blocks for it.
  bool start(uint64_t request, int attempt, int tokens, const wire::DecodeTarget& target,
             TimePoint deadline);
  void cancel_one();
  size_t running() const { return prefills_.size(); }
  bool has(uint64_t request, int attempt) const;

 private:
  void on_event(Event event) override;
  void work() override;
  void advance(TransferId id, Prefill& prefill);
  void finish(TransferId id, const Status& status);

  const Ended ended_;
  TransferId next_transfer_ = 1;
  std::map<TransferId, Prefill> prefills_;
};

class DecodeProcess final : public Process {
 public:
  using Done = std::function<void(uint64_t request, int attempt)>;
  DecodeProcess(World& world, const std::string& name, uint64_t incarnation, const TestShape& shape,
                Done done);
  ~DecodeProcess() override = default;

  void cancel_one();
  int blocks_held() const { return pools_->shape().blocks - owners_.free(); }
  // Tells who asks `in_use(peer, request, attempt)` of each ticket; one that was not in use for
  // `patience` is a finding.
  using InUse = std::function<bool(const std::string& peer, uint64_t request, int attempt)>;
  void check_use(const InUse& in_use, Duration patience);

 private:
  struct Reservation {
    std::string peer;
    uint64_t request = 0;
    int attempt = 0;
    int tokens = 0;
    int unit = 0;
    bool granted = false;
    bool aborted = false;
    TimePoint since;     // of the grant
    TimePoint last_use;  // by its sender
    std::vector<BlockId> blocks;
  };
  struct Running {
    uint64_t request = 0;
    int attempt = 0;
    int tokens = 0;
    std::vector<BlockId> blocks;
    TimePoint until;
  };
  void on_event(Event event) override;
  void on_committed(const TransferCommitted& event);
  void work() override;
  // False when there is no room.
  bool answer(uint64_t id, Reservation& reservation);
  void check_ages();

  const Done done_;
  std::map<uint64_t, Reservation> reservations_;
  std::deque<uint64_t> waiting_;
  std::vector<Running> running_;
};

// The seed of a request's KV.
uint64_t kv_seed(uint64_t request);

}  // namespace baton::kv_transfer::simulation
