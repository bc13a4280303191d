#pragma once

// The hand-over without threads and sockets: tables, state machines and timers, driven by calls.
// An agent (agent.cc) gives it ZeroMQ, UCX and a thread; tests give it a network in memory, the
// in-process data path and a clock that moves when told.

#include <functional>
#include <memory>
#include <vector>

#include "kv_transfer/core_context.h"
#include "kv_transfer/receiver.h"
#include "kv_transfer/sender.h"
#include "kv_transfer/session.h"

namespace baton::kv_transfer {

class TransferCore final : private SessionObserver {
 public:
  // All arguments outlive the core; `options` with its own timeouts, not yet scaled.
  TransferCore(const AgentOptions& options, std::vector<DataPath*> paths, ControlPort& control,
               const Clock& clock, Random& random, TransferMetrics& metrics,
               std::function<void(Event)> emit);
  ~TransferCore() override;

  // The calls of transfer.h.
  void open(TransferId id, OpenTransfer request) { sender_.open(id, std::move(request), now()); }
  void add_blocks(TransferId id, int group, const std::vector<BlockId>& blocks) {
    sender_.add_blocks(id, group, blocks);
  }
  void layer_written(TransferId id, int rank, int layer, int tokens) {
    sender_.layer_written(id, rank, layer, tokens);
  }
  void commit(TransferId id, std::vector<wire::CommittedChoice> choices, wire::RunTimings timings) {
    sender_.commit(id, std::move(choices), std::move(timings), now());
  }
  void abort(TransferId id, const std::string& reason) { sender_.abort(id, reason, now()); }
  void grant(uint64_t reservation, std::vector<BlockId> blocks, int have_tokens,
             WindowGrant window = {}) {
    receiver_.grant(reservation, std::move(blocks), have_tokens, std::move(window), now());
  }
  void deny(uint64_t reservation, const Status& why, uint32_t retry_after_ms) {
    receiver_.deny(reservation, why, retry_after_ms);
  }
  void abort_reservation(uint64_t reservation, const std::string& reason) {
    receiver_.abort_reservation(reservation, reason, now());
  }

  // What the control plane delivers. A message that could not be read comes as its error.
  void on_message(ChannelId channel, Result<wire::Message> message);
  // `why` when its handshake failed.
  void on_channel_lost(ChannelId channel, const std::string& why = {});

  // Data paths, then what may be posted; the number of things done.
  int progress();
  // Timers; to be called at least every kSweepInterval.
  void poll(bool stuck);
  // Ends all sessions (their transfers fail, their tickets are aborted). Then progress() until
  // idle().
  void shut_down(const Status& why);
  // A lost peer that may still write into our pools is not waited for: they end with the process.
  bool idle();

  bool outstanding() const;  // requests are under way on a data path
  std::vector<int> process_fds() const { return sessions_.process_fds(); }
  std::vector<TransferAgent::Link> links();
  double bytes_per_s() const { return sender_.bytes_per_s(); }
  Duration oldest() const;
  size_t transfers() const { return sender_.size(); }
  size_t tickets() const { return receiver_.size(); }

  static constexpr Duration kSweepInterval = 20ms;

 private:
  class PathEvents;
  TimePoint now() const { return clock_.now(); }
  void session_ready(Session& session, TimePoint now) override;
  void session_lost(Session& session, const Status& why, TimePoint now) override;
  void session_closed(Session& session, TimePoint now) override;
  void deliver(Session& session, wire::Message message);

  const AgentOptions options_;
  const std::vector<DataPath*> paths_;
  const Clock& clock_;
  TransferMetrics& metrics_;
  const std::function<void(Event)> emit_;
  CoreContext context_;
  SessionTable sessions_;
  SenderTable sender_;
  ReceiverTable receiver_;
  std::vector<std::unique_ptr<PathEvents>> path_events_;
};

}  // namespace baton::kv_transfer
