#pragma once

// The hand-over of KV blocks from a prefill worker to a decode worker: sessions between processes,
// tickets, layer-wise push, commit, abort, quarantine. docs/protocol.md draws the state machines.
//
// A TransferAgent owns one thread (and UCX's), all its sockets, endpoints, timers and tables. Its
// public calls only enqueue and return at once; they may be made from any thread. What happens is
// told through `on_event`, called on the agent's thread, which must only enqueue (the worker loop's
// queue). The agent never allocates or frees blocks: ids come from the loop in grant() and go back
// by event.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/base/fault_point.h"
#include "common/base/ids.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/kv_cache/kv_pool.h"
#include "common/metrics/registry.h"
#include "common/wire/messages.h"

namespace baton::wire {
class Context;
}

namespace baton::kv_transfer {

class InprocHub;  // transports/inproc/inproc_path.h

// Deadlines; the defaults are those of docs/protocol.md, each a configuration key. All are
// multiplied by time_scale.
struct Timeouts {
  Duration handshake = 2s;
  Duration reserve =
      500ms;  // until GRANT, DENY or "queued" is heard of; then the request's deadline
  Duration no_progress = 2s;
  Duration transfer_base = 1s;  // + bytes / (rate_share x measured rate), at most transfer_max
  double rate_share = 0.2;
  Duration transfer_max = 30s;
  Duration commit_ack = 500ms;
  int commit_resends = 3;
  Duration abort_drain = 2s;
  Duration lease_extra = 2s;
  Duration heartbeat = 200ms;
  Duration peer_dead = 1s;
  Duration quarantine_alarm = 10s;
  Duration endpoint_close = 1s;  // at shutdown; a lost peer's endpoint gets a twentieth of it
  Duration reconnect_min = 50ms;
  Duration reconnect_max = 2s;
  double time_scale = 1;
};

struct AgentOptions {
  wire::Role role = wire::Role::kPrefill;
  std::string name;
  Incarnation incarnation;
  std::string listen;  // ZeroMQ address of a decode worker's agent; a prefill worker needs none
  std::vector<std::string> transports = {"ucx-posix"};
  std::vector<std::string> devices = {"lo"};
  bool digest = true;
  U128 model_hash;
  std::string numerics;
  int segments = 1;
  std::vector<const kv_cache::KvPool*> pools;  // one per rank; outlive the agent
  Timeouts timeouts;
  wire::Context* context = nullptr;  // the process's, outlives the agent; null = one of its own
  InprocHub* inproc = nullptr;       // where agents of one process meet, for transport "inproc"
  FaultPlan* faults = nullptr;       // of builds with BATON_FAULTS; outlives the agent
};

// ---- sender (prefill worker)

using TransferId = uint64_t;  // of this agent, never reused; 0 is invalid

struct OpenTransfer {
  wire::DecodeTarget target;
  wire::RunBody body;
  int kv_tokens = 0;
  // The sequence's block tables in the first and the second cache group, held by the loop until a
  // final event. That of a window group may lack its end, which add_blocks() brings.
  std::vector<BlockId> blocks;
  std::vector<BlockId> window_blocks;
  TimePoint deadline;  // of the whole request; TimePoint::max() for none
};
struct TransferGranted {  // information; pushing starts by itself
  TransferId id = 0;
  int have_tokens = 0;  // of the first group
};
// Final events of a sender's transfer: exactly one of these comes for each open(), and after it the
// agent touches none of its blocks.
struct TransferAcked {
  TransferId id = 0;
  uint64_t bytes = 0;
  std::string transport;
  double seconds = 0;             // RESERVE to COMMIT_ACK
  double visible_seconds = 0;     // from commit() to COMMIT_ACK
  double first_data_seconds = 0;  // from open() to the first DATA; 0 when nothing had to be sent
  double grant_seconds = 0;       // from open() to GRANT
};
struct TransferFailed {
  TransferId id = 0;
  Status status;  // resource_exhausted for DENY, cancelled for abort(), worker_lost, ...
  uint32_t retry_after_ms = 0;
  // Bytes were lost or damaged on the way to a worker that lives: sent again they may arrive.
  bool data_lost = false;
};

// ---- receiver (decode worker)

using TicketId = uint64_t;  // (slot << 32) | generation

struct ReserveArrived {
  uint64_t reservation = 0;  // of this agent; answer with grant() or deny()
  std::string peer;
  wire::RunBody body;
  int kv_tokens = 0;
  int push_unit_tokens = 0;  // have_tokens of grant() must be a multiple of it
  TimePoint deadline;        // TimePoint::max() for none
};
// The sender gave up, or died, before an answer: forget the reservation. A grant() that is already
// on its way is ignored and its blocks are the loop's at once.
struct ReserveWithdrawn {
  uint64_t reservation = 0;
};
// What grant() says of the second cache group.
struct WindowGrant {
  std::vector<BlockId> blocks;
  int have_tokens = 0;
};
struct TransferCommitted {  // all data is in place and checked; the blocks are the loop's again
  TicketId ticket = 0;
  uint64_t reservation = 0;
  wire::Commit commit;
  uint64_t bytes = 0;
  std::string transport;
};
// The ticket ended without a commit. The blocks are in quarantine until TicketReleased.
struct TicketAborted {
  TicketId ticket = 0;
  uint64_t reservation = 0;
  Status status;
};
struct TicketReleased {  // no writer can reach the blocks any more: they may be reused
  TicketId ticket = 0;
  uint64_t reservation = 0;
};

// ---- both

struct PeerUp {
  std::string name;
  Incarnation incarnation;
  std::string transport;  // the lane really used
};
struct PeerLost {
  std::string name;
  Incarnation incarnation;
  Status status;
};

using Event =
    std::variant<TransferGranted, TransferAcked, TransferFailed, ReserveArrived, ReserveWithdrawn,
                 TransferCommitted, TicketAborted, TicketReleased, PeerUp, PeerLost>;

class TransferAgent {
 public:
  // Starts the thread, opens the transports and checks that each runs on the lane it names (a start
  // on another lane is an error). Blocking, bounded by Timeouts::handshake.
  static Result<std::unique_ptr<TransferAgent>> create(const AgentOptions& options,
                                                       const Clock& clock, Random& random,
                                                       metrics::Registry& registry,
                                                       std::function<void(Event)> on_event);
  // Aborts what runs, closes endpoints within Timeouts::endpoint_close, joins.
  ~TransferAgent();

  std::string listen_address() const;  // with the real port

  // --- sender
  TransferId open(OpenTransfer request);
  // The table of a window group goes on with these blocks. To be called before layer_written() says
  // that they hold something.
  void add_blocks(TransferId id, int group, std::vector<BlockId> blocks);
  // K and V of tokens [0, tokens) of `layer` are stored on `rank`. Any thread (compute threads call
  // it through the loop's mapping from steps to transfers); only enqueues.
  void layer_written(TransferId id, int rank, int layer, int tokens);
  // All layers of all tokens are written; sends the rest, then COMMIT.
  void commit(TransferId id, std::vector<wire::CommittedChoice> choices, wire::RunTimings timings);
  void abort(TransferId id, std::string reason);

  // --- receiver
  // `blocks` hold at least kv_tokens; those of the first have_tokens tokens (a multiple of the
  // reservation's push unit) are D's own prefix hits and are not written. The V halves of the
  // others have been zeroed. Of a window group, first or second, have_tokens is at least where the
  // first block begins that the token after kv_tokens sees; what lies before that is not looked at.
  void grant(uint64_t reservation, std::vector<BlockId> blocks, int have_tokens,
             WindowGrant window = {});
  void deny(uint64_t reservation, Status why, uint32_t retry_after_ms);
  // The loop no longer wants what it granted (cancelled): aborts it towards the sender. Answered by
  // TicketAborted and TicketReleased, unless TransferCommitted was already on its way.
  void abort_reservation(uint64_t reservation, std::string reason);

  // --- both
  struct Link {
    std::string peer;
    std::string transport;
    Incarnation incarnation;
  };
  std::vector<Link> links() const;  // READY sessions
  // For the heartbeat to peers: whether the own loop or step makes no progress.
  void set_stuck(bool stuck);
  double measured_bytes_per_s() const;  // lately, for placement; 0 = not yet
  // When the transfer thread last went round: not long ago, unless it hangs.
  TimePoint last_turn() const;

 private:
  struct State;
  explicit TransferAgent(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace baton::kv_transfer
