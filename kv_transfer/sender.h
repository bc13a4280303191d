#pragma once

// The sender's table: every transfer of a prefill worker, from open() to its one final event.
// Driven by the core on the agent's thread; nothing blocks.

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kv_transfer/core_context.h"
#include "kv_transfer/data_header.h"
#include "kv_transfer/digest.h"
#include "kv_transfer/sender_states.h"
#include "kv_transfer/session.h"

namespace baton::kv_transfer {

class SenderTable {
 public:
  SenderTable(const CoreContext& context, SessionTable& sessions);
  ~SenderTable();

  // The calls of transfer.h.
  void open(TransferId id, OpenTransfer request, TimePoint now);
  void add_blocks(TransferId id, int group, const std::vector<BlockId>& blocks);
  void layer_written(TransferId id, int rank, int layer, int tokens);
  void commit(TransferId id, std::vector<wire::CommittedChoice> choices, wire::RunTimings timings,
              TimePoint now);
  void abort(TransferId id, const std::string& reason, TimePoint now);

  void on_message(Session& session, const wire::Grant& grant, TimePoint now);
  void on_message(Session& session, const wire::Deny& deny, TimePoint now);
  void on_message(Session& session, const wire::CommitAck& ack, TimePoint now);
  void on_message(Session& session, const wire::Abort& abort, TimePoint now);
  void on_message(Session& session, const wire::AbortAck& ack, TimePoint now);
  void on_message(Session& session, const wire::StatusReply& reply, TimePoint now);

  void session_ready(Session& session, TimePoint now);
  void session_lost(Session& session, const Status& why, TimePoint now);
  void sent(uint64_t cookie, const Status& status, TimePoint now);

  // Posts what the sessions' windows take; the number of messages posted.
  int pump(TimePoint now);
  // Deadlines. `late`: this thread was held up, silence proves nothing.
  void sweep(TimePoint now, bool late);

  double bytes_per_s() const { return bytes_per_s_; }
  Duration oldest(TimePoint now) const;
  size_t size() const { return transfers_.size(); }

  // Bytes under way in a session; more are posted when requests end.
  static constexpr size_t kWindowBytes = 8u << 20;

 private:
  struct Transfer;
  struct Post {  // one DATA under way
    TransferId transfer = 0;
    SessionId session = 0;
    size_t bytes = 0;
    std::vector<std::byte> staging;
    DataHeaderBytes header{};
  };

  Transfer* find(TransferId id);
  Transfer* by_ticket(const Session& session, uint32_t slot, uint32_t generation);
  Transfer* by_reserve(const Session& session, uint64_t reserve_id);
  bool step(Transfer& transfer, SenderEvent event);

  void reserve(Transfer& transfer, Session& session, TimePoint now);
  void refuse_ticket(Session& session, const wire::Grant& grant);
  void tell_quiet(Session& session, uint64_t reserve_id, uint32_t slot, uint32_t generation);
  static Status take_tables(const Session& session, Transfer& transfer, const wire::Grant& grant);
  std::vector<IoSlice> targets_of(const Session& session, const Transfer& transfer,
                                  const PieceRun& run);
  void begin_granted(Transfer& transfer, Session& session, TimePoint now);
  void mark_ready(Transfer& transfer);
  bool next_run(Transfer& transfer, const PiecePlan& plan, PieceRun* run) const;
  bool post_next(Transfer& transfer, Session& session, TimePoint now);
  void post(Transfer& transfer, Session& session, const PieceRun& run);
  void check_posted(Transfer& transfer, TimePoint now);
  void drained(Transfer& transfer, TimePoint now);
  void send_commit(Transfer& transfer, TimePoint now);
  void resend(Transfer& transfer, TimePoint now);
  void cancel(Transfer& transfer, Status why, TimePoint now, bool tell_peer);
  void check_quiet(Transfer& transfer, TimePoint now);
  void finish(Transfer& transfer, TimePoint now);
  void drop(DropReason reason) { context_.metrics.dropped(reason); }
  void account_idle(const Session& session, TimePoint now);
  Duration transfer_limit(uint64_t bytes) const;

  const CoreContext& context_;
  SessionTable& sessions_;
  std::unordered_map<TransferId, std::unique_ptr<Transfer>> transfers_;
  std::vector<TransferId> finished_;  // to erase
  std::unordered_map<uint64_t, Post> posts_;
  uint64_t next_cookie_ = 1;
  double bytes_per_s_ = 0;
  TimePoint busy_since_{};
  uint64_t busy_bytes_ = 0;
  std::vector<std::byte> spill_;  // where padding without a block of the receiver's goes
};

}  // namespace baton::kv_transfer
